/* tests/fuzz/local_ring_fuzz.c - memory that a process of this host shares with a faulty one, which writes
 * what it likes into the ring that this one reads, and says what it likes of the one that this one writes.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rpc/local_ring.h"
#include "tests/fuzz/fuzz.h"

enum {
  BYTES_AT = 128, /* of a ring, behind its counts; the ring to the server comes first */
  RING_BYTES = BYTES_AT + WEFT_LOCAL_RING_BYTES,
  TAKEN_AT = 64
};

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    /* how many bytes were put, how many were taken of the other ring; then packets: their sizes, their bytes
     */
    WEFT_FUZZ_BYTES("\x18\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00"
                    "abc\x00\x08\x00\x00\x00"
                    "12345678\x00\x00\x00\x00"),
    WEFT_FUZZ_BYTES("\x00\x80\x00\x00\xff\xff\xff\xff\x00\x20\x00\x00"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t n) {
  static char packet[WEFT_LOCAL_RING_MOST];
  int files[WEFT_LOCAL_RING_FILES];
  weft_local_rings_t *caller = weft_local_rings_create();
  if (caller == NULL) return;
  char *at = mmap(NULL, 2 * (size_t)RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                  weft_local_rings_file(caller, 0), 0);
  for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) files[i] = dup(weft_local_rings_file(caller, i));
  weft_local_rings_t *server = weft_local_rings_open(files);
  if (at != MAP_FAILED && server != NULL && n >= 8) {
    memcpy(at, data, 4);
    memcpy(at + RING_BYTES + TAKEN_AT, data + 4, 4);
    weft_local_rings_look(caller, false);
    const size_t rest = n - 8 < WEFT_LOCAL_RING_BYTES ? n - 8 : WEFT_LOCAL_RING_BYTES;
    memcpy(at + BYTES_AT, data + 8, rest);
    size_t taken = 0;
    for (ssize_t got; (got = weft_local_rings_take(server, packet)) > 0; taken += (size_t)got + 4)
      weft_fuzz_check(got <= WEFT_LOCAL_RING_MOST && taken <= WEFT_LOCAL_RING_BYTES,
                      "more than the ring holds");
    const struct iovec piece = {packet, 1 + n % sizeof packet};
    (void)weft_local_rings_put(server, &piece, 1);
  }
  if (at != MAP_FAILED) munmap(at, 2 * (size_t)RING_BYTES);
  weft_local_rings_destroy(server);
  weft_local_rings_destroy(caller);
}
