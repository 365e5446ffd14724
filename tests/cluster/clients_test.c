/* Multi-worker mirrored with one client per worker: two `weft submit` processes, each at its own worker's
 * master, each with rows of its own, train the same variables in step. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/cluster/server_process.h"
#include "tests/directory.h"
#include "tests/runner.h"

#define GRAPH "tests/strategies/testdata/mlp_momentum.pb"

enum { TEXT = 1 << 16 };

typedef struct client {
  weft_test_process_t process;
  char master[64], strategy[64], x[420], y[420];
  char out[TEXT], err[TEXT];
} client_t;

/* Rows that a formula gives, beginning with row `first`, as files. */
static void write_npy(const char *path, const char *type, const void *data, size_t bytes, int rows,
                      int columns) {
  char header[118], shape[32];
  if (columns > 0) {
    snprintf(shape, sizeof shape, "(%d, %d)", rows, columns);
  } else {
    snprintf(shape, sizeof shape, "(%d,)", rows);
  }
  int n =
      snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
  memset(header + n, ' ', sizeof header - (size_t)n);
  header[sizeof header - 1] = '\n';
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, sizeof header, 0};
  fwrite(start, 1, sizeof start, f);
  fwrite(header, 1, sizeof header, f);
  fwrite(data, 1, bytes, f);
  fclose(f);
}

static void write_rows(client_t *c, const char *name, int first, int rows) {
  static float x[64 * 32];
  static int y[64];
  for (int r = 0; r < rows; r++) {
    int number = first + r;
    y[r] = number * 7 % 10;
    for (int k = 0; k < 32; k++)
      x[r * 32 + k] = (float)((number * 37 + k * 11 + y[r] * k) % 41) / 20.0f - 1.0f;
  }
  weft_test_directory();
  snprintf(c->x, sizeof c->x, "x=%s_%s_x.npy", weft_test_path("rows"), name);
  snprintf(c->y, sizeof c->y, "y=%s_%s_y.npy", weft_test_path("rows"), name);
  write_npy(c->x + 2, "<f4", x, (size_t)rows * 32 * sizeof(float), rows, 32);
  write_npy(c->y + 2, "<i4", y, (size_t)rows * sizeof(int), rows, 0);
}

static void start_client(client_t *c, const char *const *more) {
  const char *arguments[30] = {"submit", GRAPH, "--init", "init", "--target", "train", "--fetch", "loss",
                               "--feed", c->x,  "--feed", c->y,   "--steps",  "30",    "--json"};
  int n = 15;
  while (*more != NULL) arguments[n++] = *more++;
  weft_test_process_start(&c->process, arguments, NULL);
}

/* The last "loss" that the client told. */
static double loss_of(client_t *c) {
  CU_ASSERT_EQUAL(weft_test_process_wait(&c->process, 30000, c->out, c->err, TEXT), 0);
  if (c->err[0] != '\0') fprintf(stderr, "%s", c->err);
  double loss = -1;
  for (const char *at = c->out; (at = strstr(at, "\"loss\":")) != NULL; at += 7)
    sscanf(at + 7, " %lf", &loss);
  return loss;
}

static void two_clients_train_as_one_device_does(void) {
  static client_t alone, clients[2];
  weft_test_servers_t servers;
  write_rows(&alone, "all", 0, 64);
  start_client(&alone, (const char *const[]){NULL});
  double expected = loss_of(&alone);
  CU_ASSERT_TRUE(expected > 0);
  weft_test_servers_start(&servers);
  for (int i = 0; i < 2; i++) {
    client_t *c = &clients[i];
    write_rows(c, i == 0 ? "first" : "second", 24 * i, i == 0 ? 24 : 40); /* uneven shares */
    snprintf(c->strategy, sizeof c->strategy, "multi_worker_mirrored:task=%d", i);
    start_client(c, (const char *const[]){"--master", servers.processes[1 + i].target, "--strategy",
                                          c->strategy, NULL});
  }
  for (int i = 0; i < 2; i++) {
    double loss = loss_of(&clients[i]);
    if (!(loss > expected * (1 - 1e-5) && loss < expected * (1 + 1e-5)))
      fprintf(stderr, "client %d: loss %.9g, not %.9g\n", i, loss, expected);
    CU_ASSERT_DOUBLE_EQUAL(loss, expected, expected * 1e-5);
  }
  weft_test_servers_kill(&servers);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"two clients train as one device does", two_clients_train_as_one_device_does},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("clients of one job", tests);
}
