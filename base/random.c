/* base/random.c - getrandom(2), with a buffer per thread so that a step's ids cost no system call. */
#define _GNU_SOURCE
#include "base/random.h"

#include <stddef.h>
#include <sys/random.h>

#include "base/clock.h"

uint64_t weft_random_id(void) {
  static _Thread_local uint64_t pool[64];
  static _Thread_local size_t left = 0;
  uint64_t id = 0;
  while (id == 0) {
    if (left == 0) {
      if (getrandom(pool, sizeof pool, 0) != (ssize_t)sizeof pool) {
        /* Not possible for 512 bytes once the generator is seeded; stay unique all the same. */
        for (size_t i = 0; i < 64; i++) pool[i] = (uint64_t)weft_clock_ns() * 0x9e3779b97f4a7c15u + i;
      }
      left = 64;
    }
    id = pool[--left];
  }
  return id;
}
