/* kernels/cpu/loops/fingerprint.c - FarmHash's Fingerprint64 and Fingerprint128, and SipHash.
 *
 * Fingerprints: Geoff Pike, FarmHash 1.1 (farmhashna; farmhashcc for 128 bits), a descendant of CityHash.
 * SipHash: Jean-Philippe Aumasson and Daniel J. Bernstein, "SipHash: a fast short-input PRF", 2012. Words are
 * little-endian.
 */
#include "kernels/cpu/loops/fingerprint.h"

static uint64_t rotate_left(uint64_t x, int by) { return x << by | x >> (64 - by); }
static uint64_t rotate_right(uint64_t x, int by) { return x >> by | x << (64 - by); }

static uint64_t word64(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

static uint64_t word32(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

/* ---- FarmHash ---- */

#define K0 UINT64_C(0xc3a5c85c97cb3127)
#define K1 UINT64_C(0xb492b66fbe98f273)
#define K2 UINT64_C(0x9ae16a3b2f90404f)

static uint64_t mix(uint64_t x) { return x ^ x >> 47; }

static uint64_t join(uint64_t a, uint64_t b, uint64_t factor) {
  uint64_t x = mix((a ^ b) * factor);
  return mix((b ^ x) * factor) * factor;
}

static uint64_t up_to_16(const uint8_t *s, size_t n) {
  uint64_t factor = K2 + n * 2;
  if (n >= 8) {
    uint64_t a = word64(s) + K2, b = word64(s + n - 8);
    return join(rotate_right(b, 37) * factor + a, (rotate_right(a, 25) + b) * factor, factor);
  }
  if (n >= 4) return join(n + (word32(s) << 3), word32(s + n - 4), factor);
  if (n == 0) return K2;
  uint32_t y = (uint32_t)s[0] + ((uint32_t)s[n >> 1] << 8), z = (uint32_t)n + ((uint32_t)s[n - 1] << 2);
  return mix(y * K2 ^ z * K0) * K2;
}

static uint64_t up_to_32(const uint8_t *s, size_t n) {
  uint64_t factor = K2 + n * 2, a = word64(s) * K1, b = word64(s + 8), c = word64(s + n - 8) * factor,
           d = word64(s + n - 16) * K2;
  return join(rotate_right(a + b, 43) + rotate_right(c, 30) + d, a + rotate_right(b + K2, 18) + c, factor);
}

static uint64_t up_to_64(const uint8_t *s, size_t n) {
  uint64_t factor = K2 + n * 2, a = word64(s) * K2, b = word64(s + 8), c = word64(s + n - 8) * factor,
           d = word64(s + n - 16) * K2, e = word64(s + 16) * factor, f = word64(s + 24);
  uint64_t y = rotate_right(a + b, 43) + rotate_right(c, 30) + d;
  uint64_t z = join(y, a + rotate_right(b + K2, 18) + c, factor);
  uint64_t g = (y + word64(s + n - 32)) * factor, h = (z + word64(s + n - 24)) * factor;
  return join(rotate_right(e + f, 43) + rotate_right(g, 30) + h, e + rotate_right(f + a, 18) + g, factor);
}

typedef struct farm_pair {
  uint64_t a, b;
} farm_pair_t;

static farm_pair_t weak_32(const uint8_t *s, uint64_t a, uint64_t b) {
  uint64_t z = word64(s + 24);
  a += word64(s);
  b = rotate_right(b + a + z, 21);
  uint64_t c = a;
  a += word64(s + 8) + word64(s + 16);
  return (farm_pair_t){a + z, b + rotate_right(a, 44) + c};
}

/* The state of texts of more than 64 bytes. */
typedef struct farm_state {
  uint64_t x, y, z;
  farm_pair_t v, w;
} farm_state_t;

/* One block of 64 bytes; `nine` is 9 for the last one, else 1. */
static void farm_block(farm_state_t *t, const uint8_t *s, uint64_t factor, uint64_t nine) {
  uint64_t x = rotate_right(t->x + t->y + t->v.a + word64(s + 8), 37) * factor;
  uint64_t y = rotate_right(t->y + t->v.b + word64(s + 48), 42) * factor;
  x ^= t->w.b * nine;
  y += t->v.a * nine + word64(s + 40);
  uint64_t z = rotate_right(t->z + t->w.a, 33) * factor;
  t->v = weak_32(s, t->v.b * factor, x + t->w.a);
  t->w = weak_32(s + 32, z + t->w.b, y + word64(s + 16));
  t->x = z;
  t->y = y;
  t->z = x;
}

static uint64_t over_64(const uint8_t *s, size_t n) {
  const uint64_t seed = 81;
  const uint8_t *end = s + (n - 1) / 64 * 64, *last = s + n - 64;
  farm_state_t t = {.x = seed, .y = seed * K1 + 113};
  t.z = mix(t.y * K2 + 113) * K2;
  t.x = t.x * K2 + word64(s);
  for (; s != end; s += 64) farm_block(&t, s, K1, 1);
  uint64_t factor = K1 + ((t.z & 0xff) << 1);
  t.w.a += (n - 1) & 63;
  t.v.a += t.w.a;
  t.w.a += t.v.a;
  farm_block(&t, last, factor, 9);
  return join(join(t.v.a, t.w.a, factor) + mix(t.y) * K0 + t.z, join(t.v.b, t.w.b, factor) + t.x, factor);
}

uint64_t weft_fingerprint64(weft_str_t s) {
  const uint8_t *p = (const uint8_t *)s.data;
  if (s.length <= 16) return up_to_16(p, s.length);
  if (s.length <= 32) return up_to_32(p, s.length);
  return s.length <= 64 ? up_to_64(p, s.length) : over_64(p, s.length);
}

/* ---- FarmHash, 128 bits ---- */

#define K128 UINT64_C(0x9ddfea08eb382d69)

/* Up to 127 bytes. */
static farm_pair_t murmur_128(const uint8_t *s, size_t n, farm_pair_t seed) {
  uint64_t a = seed.a, b = seed.b, c, d;
  if (n <= 16) {
    a = mix(a * K1) * K1;
    c = b * K1 + up_to_16(s, n);
    d = mix(a + (n >= 8 ? word64(s) : c));
  } else {
    c = join(word64(s + n - 8) + K1, a, K128);
    d = join(b + n, c + word64(s + n - 16), K128);
    a += d;
    for (size_t i = 0; i + 16 < n; i += 16) {
      a = (a ^ mix(word64(s + i) * K1) * K1) * K1;
      b ^= a;
      c = (c ^ mix(word64(s + i + 8) * K1) * K1) * K1;
      d ^= c;
    }
  }
  a = join(a, c, K128);
  b = join(d, b, K128);
  return (farm_pair_t){a ^ b, join(b, a, K128)};
}

static farm_pair_t seeded_128(const uint8_t *s, size_t n, farm_pair_t seed) {
  if (n < 128) return murmur_128(s, n, seed);
  farm_state_t t = {.x = seed.a, .y = seed.b, .z = n * K1};
  t.v.a = rotate_right(t.y ^ K1, 49) * K1 + word64(s);
  t.v.b = rotate_right(t.v.a, 42) * K1 + word64(s + 8);
  t.w.a = rotate_right(t.y + t.z, 35) * K1 + t.x;
  t.w.b = rotate_right(t.x + word64(s + 88), 53) * K1;
  for (; n >= 128; n -= 128, s += 128) {
    farm_block(&t, s, K1, 1);
    farm_block(&t, s + 64, K1, 1);
  }
  t.x += rotate_right(t.v.a + t.z, 49) * K0;
  t.y = t.y * K0 + rotate_right(t.w.b, 37);
  t.z = t.z * K0 + rotate_right(t.w.a, 27);
  t.w.a *= 9;
  t.v.a *= K0;
  for (size_t done = 0; done < n;) { /* what is left, from its end; the text before it is long enough */
    done += 32;
    const uint8_t *at = s + n - done;
    t.y = rotate_right(t.x + t.y, 42) * K0 + t.v.b;
    t.w.a += word64(at + 16);
    t.x = t.x * K0 + t.w.a;
    t.z += t.w.b + word64(at);
    t.w.b += t.v.a;
    t.v = weak_32(at, t.v.a + t.z, t.v.b);
    t.v.a *= K0;
  }
  uint64_t x = join(t.x, t.v.a, K128), y = join(t.y + t.z, t.w.a, K128);
  return (farm_pair_t){join(x + t.v.b, t.w.b, K128) + y, join(x + t.w.b, y + t.v.b, K128)};
}

void weft_fingerprint128(weft_str_t s, uint64_t out[2]) {
  const uint8_t *p = (const uint8_t *)s.data;
  bool is_long = s.length >= 16;
  farm_pair_t seed = is_long ? (farm_pair_t){word64(p), word64(p + 8) + K0} : (farm_pair_t){K0, K1};
  farm_pair_t hash = is_long ? seeded_128(p + 16, s.length - 16, seed) : seeded_128(p, s.length, seed);
  out[0] = hash.a;
  out[1] = hash.b;
}

/* ---- SipHash ---- */

static void sip_round(uint64_t v[4]) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = rotate_left(v[1], 13) ^ v[0];
  v[3] = rotate_left(v[3], 16) ^ v[2];
  v[0] = rotate_left(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = rotate_left(v[1], 17) ^ v[2];
  v[3] = rotate_left(v[3], 21) ^ v[0];
  v[2] = rotate_left(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  sip_round(v);
  sip_round(v);
  v[0] ^= word;
}

uint64_t weft_siphash64(const uint64_t key[2], weft_str_t s) {
  uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                   key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
  const uint8_t *p = (const uint8_t *)s.data;
  size_t i = 0;
  for (; i + 8 <= s.length; i += 8) sip_word(v, word64(p + i));
  uint64_t last = (uint64_t)s.length << 56;
  for (size_t k = 0; i + k < s.length; k++) last |= (uint64_t)p[i + k] << (8 * k);
  sip_word(v, last);
  v[2] ^= 0xff;
  for (int k = 0; k < 4; k++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- FingerprintCat64 ---- */

uint64_t weft_fingerprint_join(uint64_t a, uint64_t b) {
  const uint64_t m = UINT64_C(0xc6a4a7935bd1e995);
  uint64_t v = ((a ^ m) ^ mix(b * m) * m) * m;
  return mix(mix(v) * m);
}
