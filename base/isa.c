/* base/isa.c - asks the processor which levels it has. */
#include "base/isa.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"

#ifdef __x86_64__
#include <cpuid.h>

static const char *const names[WEFT_ISA_COUNT] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* What __builtin_cpu_supports of older compilers has no name for. */
static bool has_f16c_movbe_lzcnt(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0 || (c & bit_MOVBE) == 0) return false;
  return __get_cpuid(0x80000001u, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

/* __builtin_cpu_supports asks the system, too, whether it saves the registers. */
bool weft_isa_is_supported(weft_isa_t isa) {
  __builtin_cpu_init();
  const bool v2 = __builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") &&
                  __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
                  __builtin_cpu_supports("popcnt");
  if (isa == WEFT_ISA_BASE || !v2) return v2;
  const bool v3 = __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                  __builtin_cpu_supports("fma") && has_f16c_movbe_lzcnt();
  if (isa == WEFT_ISA_V3 || !v3) return v3;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
static const char *const names[WEFT_ISA_COUNT] = {"base"};

bool weft_isa_is_supported(weft_isa_t isa) { return isa == WEFT_ISA_BASE; }
#endif

const char *weft_isa_name(weft_isa_t isa) { return names[isa]; }

bool weft_isa_of_name(weft_str_t name, weft_isa_t *out) {
  static const char prefix[] = "x86-64-";
  for (int i = 0; i < WEFT_ISA_COUNT; i++) {
    if (names[i] == NULL) continue;
    const weft_str_t whole = weft_str(names[i]);
    const bool is_short =
        weft_str_starts_with(whole, prefix) && weft_str_is(name, names[i] + sizeof prefix - 1);
    if (!is_short && !weft_str_eq(name, whole)) continue;
    *out = (weft_isa_t)i;
    return true;
  }
  return false;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static weft_isa_t chosen;

static void choose(void) {
  weft_isa_t best = WEFT_ISA_BASE, asked = WEFT_ISA_BASE;
  for (int i = 0; i < WEFT_ISA_COUNT; i++) {
    if (weft_isa_is_supported((weft_isa_t)i)) best = (weft_isa_t)i;
  }
  chosen = best;
  const char *text = getenv("WEFT_ISA");
  if (text == NULL || *text == '\0') return;
  if (!weft_isa_of_name(weft_str(text), &asked)) {
    weft_log(WEFT_LOG_WARNING, "WEFT_ISA=%s is no instruction-set level; %s is used", text, names[best]);
  } else if (!weft_isa_is_supported(asked)) {
    weft_log(WEFT_LOG_WARNING, "WEFT_ISA=%s: this processor does not have it; %s is used", text, names[best]);
  } else {
    chosen = asked;
  }
}

weft_isa_t weft_isa(void) {
  (void)pthread_once(&once, choose);
  return chosen;
}
