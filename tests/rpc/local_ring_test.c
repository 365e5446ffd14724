/* tests/rpc/local_ring_test.c - both ends of a connection's rings in one process, each with its own mapping.
 */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "rpc/local_ring.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/runner.h"

enum { RING = WEFT_LOCAL_RING_BYTES, MOST = WEFT_LOCAL_RING_MOST };

/* The memory as a faulty peer finds it: the ring to the server comes first. */
enum { PUT_AT = 0, TAKEN_AT = 64, BYTES_AT = 128, ALL_BYTES = 2 * (BYTES_AT + RING) };

typedef struct ring_ends {
  weft_local_rings_t *caller, *server;
  char data[MOST + 1], got[MOST];
} ring_ends_t;

static void open_server(ring_ends_t *e, const int files[WEFT_LOCAL_RING_FILES]) {
  e->server = weft_local_rings_open(files);
  CU_ASSERT_PTR_NOT_NULL_FATAL(e->server);
  weft_local_rings_look(e->server, false);
}

static void setup(ring_ends_t *e) {
  int files[WEFT_LOCAL_RING_FILES];
  e->caller = weft_local_rings_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(e->caller);
  for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) files[i] = dup(weft_local_rings_file(e->caller, i));
  weft_local_rings_sent(e->caller);
  open_server(e, files);
  weft_local_rings_look(e->caller, false);
  for (size_t i = 0; i < sizeof e->data; i++) e->data[i] = (char)(i * 7 + i / 251);
}

static void teardown(ring_ends_t *e) {
  weft_local_rings_destroy(e->caller);
  weft_local_rings_destroy(e->server);
}

static bool put(weft_local_rings_t *r, const char *data, size_t n) {
  char *bytes = (char *)(uintptr_t)data; /* the cast drops const: it is only read */
  const struct iovec pieces[3] = {{bytes, n / 3}, {NULL, 0}, {bytes + n / 3, n - n / 3}};
  return weft_local_rings_put(r, pieces, 3);
}

/* Has this end been told of a packet since it was last asked? */
static bool was_told(weft_local_rings_t *r) {
  struct pollfd p = {.fd = weft_local_rings_bell(r), .events = POLLIN};
  const bool told = poll(&p, 1, 0) > 0;
  weft_local_rings_quiet(r);
  return told;
}

static void packets_of_all_sizes_come_in_order(void) {
  ring_ends_t e;
  unsigned seed = 1;
  setup(&e);
  for (int round = 0; round < 3000; round++) {
    weft_local_rings_t *from = round % 2 == 0 ? e.caller : e.server,
                       *to = round % 2 == 0 ? e.server : e.caller;
    size_t sizes[3];
    for (int i = 0; i < 3; i++) {
      seed = seed * 1664525u + 1013904223u;
      sizes[i] = 1 + (seed >> 8) % (round % 10 == 0 ? MOST : 200);
      CU_ASSERT_TRUE_FATAL(put(from, e.data + i, sizes[i] - (sizes[i] > MOST - 3 ? 3 : 0)));
      if (sizes[i] > MOST - 3) sizes[i] -= 3;
    }
    for (int i = 0; i < 3; i++) {
      CU_ASSERT_EQUAL_FATAL(weft_local_rings_take(to, e.got), (ssize_t)sizes[i]);
      CU_ASSERT_EQUAL(memcmp(e.got, e.data + i, sizes[i]), 0);
    }
    CU_ASSERT_EQUAL(weft_local_rings_take(to, e.got), 0);
  }
  teardown(&e);
}

static void what_does_not_fit_is_refused(void) {
  ring_ends_t e;
  setup(&e);
  CU_ASSERT_FALSE(put(e.caller, e.data, 0));
  CU_ASSERT_FALSE(put(e.caller, e.data, MOST + 1));
  int n = 0;
  while (put(e.caller, e.data, 1000)) n++;
  CU_ASSERT_EQUAL(n, RING / 1008);
  CU_ASSERT_TRUE(put(e.server, e.data, MOST)); /* the other direction has room of its own */
  CU_ASSERT_EQUAL(weft_local_rings_take(e.server, e.got), 1000);
  CU_ASSERT_TRUE(put(e.caller, e.data, 1000));
  CU_ASSERT_FALSE(put(e.caller, e.data, 1000));
  teardown(&e);
}

static void a_ring_that_no_end_reads_takes_nothing(void) {
  int files[WEFT_LOCAL_RING_FILES];
  ring_ends_t e;
  e.caller = weft_local_rings_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(e.caller);
  CU_ASSERT_FALSE(put(e.caller, "a", 1));
  for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) files[i] = dup(weft_local_rings_file(e.caller, i));
  e.server = weft_local_rings_open(files);
  CU_ASSERT_PTR_NOT_NULL_FATAL(e.server);
  CU_ASSERT_FALSE(put(e.caller, "a", 1));
  weft_local_rings_look(e.server, false);
  CU_ASSERT_TRUE(put(e.caller, "a", 1));
  CU_ASSERT_FALSE(put(e.server, "a", 1));
  teardown(&e);
}

static void a_bell_rings_where_its_reader_may_sleep(void) {
  ring_ends_t e;
  setup(&e);
  CU_ASSERT_FALSE(was_told(e.server));
  CU_ASSERT_TRUE(put(e.caller, e.data, 10));
  CU_ASSERT_TRUE(was_told(e.server));
  CU_ASSERT_FALSE(was_told(e.caller));
  CU_ASSERT_TRUE(put(e.caller, e.data, 10));
  CU_ASSERT_FALSE(was_told(e.server)); /* it has not read the one before */
  CU_ASSERT_EQUAL(weft_local_rings_take(e.server, e.got), 10);
  CU_ASSERT_TRUE(weft_local_rings_has_more(e.server));
  CU_ASSERT_EQUAL(weft_local_rings_take(e.server, e.got), 10);
  CU_ASSERT_FALSE(weft_local_rings_has_more(e.server));
  weft_local_rings_look(e.server, true);
  CU_ASSERT_TRUE(put(e.caller, e.data, 10));
  CU_ASSERT_FALSE(was_told(e.server)); /* it looks */
  CU_ASSERT_EQUAL(weft_local_rings_take(e.server, e.got), 10);
  weft_local_rings_look(e.server, false);
  CU_ASSERT_TRUE(put(e.caller, e.data, 10));
  CU_ASSERT_TRUE(was_told(e.server));
  weft_local_rings_wake(e.server);
  CU_ASSERT_TRUE(was_told(e.server));
  const uint64_t most = UINT64_MAX - 1; /* a counter that is full still rings */
  CU_ASSERT_EQUAL(write(weft_local_rings_bell(e.server), &most, sizeof most), (ssize_t)sizeof most);
  weft_local_rings_wake(e.server);
  CU_ASSERT_TRUE(was_told(e.server));
  teardown(&e);
}

enum { WRITERS = 4, EACH = 20000 };
typedef struct ring_writer {
  pthread_t thread;
  ring_ends_t *ends;
  unsigned number;
} ring_writer_t;

static void *write_often(void *arg) {
  const ring_writer_t *w = arg;
  for (unsigned i = 0; i < EACH; i++) {
    unsigned packet[5] = {w->number, i, i * 3, 0, i ^ w->number};
    while (!put(w->ends->caller, (const char *)packet, sizeof packet - i % 2)) sched_yield();
  }
  return NULL;
}

/* Sleeps on the bell whenever the ring is empty: a packet without a bell would leave it asleep for ever. */
static void packets_of_many_threads_are_whole_and_none_is_missed(void) {
  ring_ends_t e;
  ring_writer_t writers[WRITERS];
  unsigned next[WRITERS] = {0};
  setup(&e);
  for (unsigned i = 0; i < WRITERS; i++) {
    writers[i] = (ring_writer_t){.ends = &e, .number = i};
    pthread_create(&writers[i].thread, NULL, write_often, &writers[i]);
  }
  for (int left = WRITERS * EACH; left > 0;) {
    unsigned packet[MOST / sizeof(unsigned)];
    const ssize_t n = weft_local_rings_take(e.server, packet);
    CU_ASSERT_TRUE_FATAL(n >= 0);
    if (n > 0) {
      CU_ASSERT_TRUE_FATAL(packet[0] < WRITERS && packet[1] == next[packet[0]] && packet[2] == 3 * packet[1]);
      CU_ASSERT_EQUAL_FATAL(n, (ssize_t)(5 * sizeof(unsigned) - packet[1] % 2));
      next[packet[0]]++;
      left--;
    } else if (!weft_local_rings_has_more(e.server)) {
      struct pollfd p = {.fd = weft_local_rings_bell(e.server), .events = POLLIN};
      CU_ASSERT_EQUAL_FATAL(poll(&p, 1, 60000), 1);
      weft_local_rings_quiet(e.server);
    }
  }
  for (int i = 0; i < WRITERS; i++) pthread_join(writers[i].thread, NULL);
  teardown(&e);
}

/* ---- peers that do not keep the rules ---- */

static int memory(int seals, off_t bytes) {
  const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CU_ASSERT_EQUAL_FATAL(ftruncate(file, bytes), 0);
  if (seals != 0) CU_ASSERT_EQUAL_FATAL(fcntl(file, F_ADD_SEALS, seals), 0);
  return file;
}

static void files_that_could_end_or_hold_up_the_reader_are_refused(void) {
  enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW, BELL = EFD_CLOEXEC | EFD_NONBLOCK };
  int pipe_ends[2];
  CU_ASSERT_EQUAL_FATAL(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK), 0);
  const int cases[][WEFT_LOCAL_RING_FILES] = {
      {memory(SEALS, ALL_BYTES), eventfd(0, BELL), eventfd(0, BELL)},
      {memory(0, ALL_BYTES), eventfd(0, BELL), eventfd(0, BELL)},
      {memory(F_SEAL_GROW, ALL_BYTES), eventfd(0, BELL), eventfd(0, BELL)},
      {memory(SEALS | F_SEAL_WRITE, ALL_BYTES), eventfd(0, BELL), eventfd(0, BELL)},
      {memory(SEALS, ALL_BYTES - 1), eventfd(0, BELL), eventfd(0, BELL)},
      {memory(SEALS, 0), eventfd(0, BELL), eventfd(0, BELL)},
      {eventfd(0, BELL), eventfd(0, BELL), eventfd(0, BELL)},
      {memory(SEALS, ALL_BYTES), eventfd(0, EFD_CLOEXEC), eventfd(0, BELL)},
      {memory(SEALS, ALL_BYTES), eventfd(0, BELL), pipe_ends[1]},
      {memory(SEALS, ALL_BYTES), pipe_ends[0], eventfd(0, BELL)}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_local_rings_t *r = weft_local_rings_open(cases[i]);
    CU_ASSERT_EQUAL(r != NULL, i == 0);
    weft_local_rings_destroy(r);
  }
}

/* The numbers of a faulty peer: nothing outside of the memory is read or written. */
static void numbers_of_a_faulty_peer_lead_nowhere(void) {
  ring_ends_t e;
  unsigned seed = 1;
  int num_taken = 0, num_refused = 0;
  for (int round = 0; round < 3000; round++) {
    int files[WEFT_LOCAL_RING_FILES];
    e.caller = weft_local_rings_create();
    CU_ASSERT_PTR_NOT_NULL_FATAL(e.caller);
    char *at =
        mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, weft_local_rings_file(e.caller, 0), 0);
    CU_ASSERT_TRUE_FATAL(at != MAP_FAILED);
    for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) files[i] = dup(weft_local_rings_file(e.caller, i));
    open_server(&e, files);
    memset(e.data, 0, sizeof e.data);
    for (int turn = 0; turn < 4; turn++) {
      seed = seed * 1664525u + 1013904223u;
      const uint32_t wild = turn % 2 == 0 ? seed : seed >> 16, size = (seed >> 4) % (MOST + 40);
      memcpy(at + PUT_AT, &wild, sizeof wild);
      memcpy(at + BYTES_AT + (seed >> 8) % 64, &size, sizeof size);
      memcpy(at + ALL_BYTES / 2 + TAKEN_AT, &wild, sizeof wild);
      ssize_t n;
      for (int i = 0; i < 100 && (n = weft_local_rings_take(e.server, e.got)) > 0; i++) num_taken++;
      num_refused += n < 0;
      CU_ASSERT_TRUE(n >= -1 && n <= MOST);
      weft_local_rings_look(e.caller, false);
      (void)put(e.server, e.data, MOST);
    }
    munmap(at, ALL_BYTES);
    teardown(&e);
  }
  CU_ASSERT_TRUE(num_taken > 100 && num_refused > 100);
}

static const CU_TestInfo tests[] = {
    {"packets of all sizes come in order", packets_of_all_sizes_come_in_order},
    {"what does not fit is refused", what_does_not_fit_is_refused},
    {"a ring that no end reads takes nothing", a_ring_that_no_end_reads_takes_nothing},
    {"a bell rings where its reader may sleep", a_bell_rings_where_its_reader_may_sleep},
    {"packets of many threads are whole and none is missed",
     packets_of_many_threads_are_whole_and_none_is_missed},
    {"files that could end or hold up the reader are refused",
     files_that_could_end_or_hold_up_the_reader_are_refused},
    {"numbers of a faulty peer lead nowhere", numbers_of_a_faulty_peer_lead_nowhere},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("local_ring", tests); }
