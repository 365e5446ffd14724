/* benchmarks/runstep_client.c - a client that only sends RunStep, and says how long a step takes.
 *
 * It speaks TensorFlow's protocol, to a Weft server or to a stock one: CreateSession once, then the same step
 * again and again, one at a time. Used by `weft bench` (rpc_step) and by benchmarks/compare_tensorflow.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/rpc_step.h"

static const struct argp_option options[] = {
    {"master", 'm', "grpc://HOST:PORT", 0, "The server", 0},
    {"graph", 'g', "FILE.pb", 0, "A serialized GraphDef; without it: x (placeholder), y = x + 1, and noop",
     0},
    {"fetch", 'f', "NAME", 0, "Tensor to fetch; may be repeated", 0},
    {"feed", 'd', "NAME=FLOAT", 0, "Scalar to feed; may be repeated", 0},
    {"target", 't', "NAME", 0, "Node to run; may be repeated", 0},
    {"steps", 'n', "N", 0, "Steps to measure (2000)", 0},
    {"warmup", 'w', "N", 0, "Steps before (200)", 0},
    {"json", 'j', NULL, 0, "One JSON object", 0},
    {0},
};

typedef struct client_args {
  weft_rpc_step_t step;
  bool json;
} client_args_t;

static bool add(const char **list, int *n, const char *text) {
  if (*n == WEFT_RPC_STEP_MAX_NAMES) return false;
  list[(*n)++] = text;
  return true;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  client_args_t *a = state->input;
  bool ok = true;
  switch (key) {
    case 'm': a->step.master = arg; break;
    case 'g': a->step.graph_file = arg; break;
    case 'f': ok = add(a->step.fetches, &a->step.num_fetches, arg); break;
    case 'd': ok = add(a->step.feeds, &a->step.num_feeds, arg); break;
    case 't': ok = add(a->step.targets, &a->step.num_targets, arg); break;
    case 'n': a->step.steps = (int)strtol(arg, NULL, 10); break;
    case 'w': a->step.warmup = (int)strtol(arg, NULL, 10); break;
    case 'j': a->json = true; break;
    case ARGP_KEY_END:
      if (a->step.master == NULL) argp_error(state, "--master is needed");
      if (a->step.steps < 1 || a->step.warmup < 0) argp_error(state, "--steps must be at least 1");
      break;
    default: return ARGP_ERR_UNKNOWN;
  }
  if (!ok) argp_error(state, "too many names");
  return 0;
}

int main(int argc, char **argv) {
  static const struct argp argp = {.options = options, .parser = parse, .doc = "Times RunStep over gRPC."};
  client_args_t a = {.step = {.steps = 2000, .warmup = 200}};
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  weft_rpc_step_result_t r;
  weft_status_t *s = weft_rpc_step_measure(&a.step, &r);
  if (s != NULL) {
    fprintf(stderr, "runstep_client: %s\n", weft_status_message(s));
    weft_status_free(s);
    return 1;
  }
  printf(a.json
             ? "{\"steps\": %d, \"median_us\": %.2f, \"mean_us\": %.2f, \"min_us\": %.2f, \"p99_us\": %.2f}\n"
             : "%d steps: median %.2f us, mean %.2f us, min %.2f us, p99 %.2f us\n",
         a.step.steps, r.median_us, r.mean_us, r.min_us, r.p99_us);
  return 0;
}
