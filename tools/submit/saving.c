/* tools/submit/saving.c - what is restored, when is saved. */
#include "tools/submit/saving.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "graph/graph_proto.h"

bool weft_saving_parse_every(const char *text, int64_t *out_steps, double *out_seconds) {
  weft_str_t s = weft_str(text);
  double unit = 0;
  *out_steps = 0;
  *out_seconds = 0;
  if (s.length == 0) return false;
  switch (s.data[s.length - 1]) {
    case 's': unit = 1; break;
    case 'm': unit = 60; break;
    case 'h': unit = 3600; break;
    default: return weft_str_to_i64(s, out_steps) && *out_steps > 0;
  }
  char *end = NULL;
  double n = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : 0;
  *out_seconds = n * unit;
  return end == text + s.length - 1 && *out_seconds > 0 && *out_seconds < 1e9;
}

bool weft_saving_is_used(const weft_saving_spec_t *spec) {
  return spec->restore != NULL || spec->save != NULL;
}

void weft_saving_deinit(weft_saving_t *s) {
  if (s->spec == NULL) return; /* never made */
  weft_access_deinit(&s->access);
  weft_restore_close(&s->restore);
  weft_series_deinit(&s->series);
  weft_saved_variables_deinit(&s->variables);
  weft_graph_destroy(s->graph);
  *s = (weft_saving_t){0};
}

/* ---- what to start from ---- */

/* A damaged checkpoint is not passed over silently; the message says how to go on from the one before it. */
static weft_status_t *damaged_series(const weft_saving_t *s, weft_status_t *failure) {
  weft_code_t code = weft_status_code(failure);
  if ((code != WEFT_DATA_LOSS && code != WEFT_NOT_FOUND) || s->series.n < 2) return failure;
  weft_status_t *told = weft_status_new(
      code, __FILE__, __LINE__, "%s; to go on from %.*s, remove %s.index", weft_status_message(failure),
      WEFT_STR_ARGS(s->series.names[s->series.n - 2]), s->series.latest.data);
  weft_status_free(failure);
  return told;
}

static weft_status_t *open_restore(weft_saving_t *s) {
  const weft_saving_spec_t *spec = s->spec;
  weft_str_t path;
  if (spec->resumes && s->series.latest.length > 0) {
    WEFT_RETURN_IF_ERROR(damaged_series(
        s, weft_restore_open("--resume", s->series.latest, &s->variables, spec->is_partial, &s->restore)));
    s->first = s->restore.position.step;
    s->saved_step = s->first;
    return NULL;
  }
  if (spec->restore == NULL) return NULL;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *failure = weft_series_resolve(spec->restore, &arena, &path);
  if (failure != NULL) {
    weft_status_t *told = weft_status_new(weft_status_code(failure), __FILE__, __LINE__, "--restore %s",
                                          weft_status_message(failure));
    weft_status_free(failure);
    failure = told;
  }
  if (failure == NULL)
    failure = weft_restore_open("--restore", path, &s->variables, spec->is_partial, &s->restore);
  weft_arena_deinit(&arena);
  return failure;
}

static weft_status_t *open_series(weft_saving_t *s) {
  double seconds = 0;
  if (s->spec->save == NULL) return NULL;
  s->is_saving = true;
  if (s->spec->every != NULL && !weft_saving_parse_every(s->spec->every, &s->every_steps, &seconds)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "--save-every %s: give steps (100) or a time (30s, 10m, 2h)",
                      s->spec->every);
  }
  s->every_ns = (int64_t)(seconds * 1e9);
  return weft_series_open(s->spec->save, (int)s->spec->keep, s->spec->resumes, &s->series);
}

weft_status_t *weft_saving_init(weft_saving_t *out, const weft_saving_spec_t *spec, weft_str_t graph_def,
                                const weft_str_t *step, int num_step) {
  const weft_import_options_t import = {.is_client_api = true};
  *out = (weft_saving_t){.spec = spec, .saved_step = -1, .saved_ns = weft_clock_ns(), .round = 1};
  WEFT_RETURN_IF_ERROR(weft_graph_create(&out->graph));
  WEFT_RETURN_IF_ERROR(weft_graph_import(out->graph, graph_def, &import));
  WEFT_RETURN_IF_ERROR(weft_saved_variables_find(out->graph, step, num_step, &out->variables));
  if (out->variables.n == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: the graph has no variables",
                      spec->save != NULL ? "--save" : "--restore");
  }
  WEFT_RETURN_IF_ERROR(open_series(out));
  return open_restore(out);
}

bool weft_saving_resumes(const weft_saving_t *s) {
  return s->spec != NULL && s->spec->resumes && s->restore.source != NULL && s->restore.has_position &&
         s->series.latest.length > 0;
}

void weft_saving_seek(weft_saving_t *s, weft_feeds_t *feeds, const char **out_note) {
  const weft_job_position_t *at = &s->restore.position;
  *out_note = NULL;
  if (!weft_saving_resumes(s) || feeds->batch == 0) return;
  bool is_same = at->rows == feeds->rows && at->is_shuffled == feeds->is_shuffled &&
                 (!at->is_shuffled || at->seed == feeds->seed);
  if (is_same) {
    weft_feeds_seek(feeds, at->epoch, at->row);
  } else {
    *out_note = at->rows != feeds->rows
                    ? "the data have another number of rows than before: they begin with the first row"
                    : "--shuffle or --seed are not as before: the data begin with the first row";
  }
}

/* ---- with the graph that runs ---- */

weft_status_t *weft_saving_attach(weft_saving_t *s, TF_Graph *graph, bool is_rewritten, bool is_follower,
                                  int round) {
  s->round = round > 1 ? round : 1;
  if (is_follower) s->is_saving = false;
  if (s->is_saving) {
    WEFT_RETURN_IF_ERROR(weft_series_check_place(&s->series));
    WEFT_RETURN_IF_ERROR(weft_series_check_room(&s->series, weft_checkpoint_bytes(&s->variables)));
  }
  return weft_access_init(graph, &s->variables, is_rewritten, &s->access);
}

weft_status_t *weft_saving_restore(weft_saving_t *s, TF_Session *session) {
  if (s->restore.source == NULL) return NULL;
  return weft_restore_run(&s->restore, &s->access, session);
}

/* ---- when ---- */

int64_t weft_saving_next_step(const weft_saving_t *s, int64_t done) {
  if (!s->is_saving || s->every_steps == 0) return INT64_MAX;
  int64_t next = done - done % s->every_steps + s->every_steps, over = (next - s->first) % s->round;
  return over == 0 ? next : next + s->round - over;
}

bool weft_saving_is_due(const weft_saving_t *s) {
  return s->is_saving && s->every_ns > 0 && weft_clock_ns() - s->saved_ns >= s->every_ns;
}

static bool ends_round(const weft_saving_t *s, int64_t step) {
  return s->round <= 1 || (step - s->first) % s->round == 0;
}

void weft_saving_step(weft_saving_t *s, const weft_job_position_t *now) {
  if (s->round > 1 && ends_round(s, now->step)) s->mark = *now;
}

weft_status_t *weft_saving_save(weft_saving_t *s, TF_Session *session, const weft_job_position_t *now,
                                weft_str_t *out_path) {
  const weft_job_position_t at = ends_round(s, now->step) ? *now : s->mark;
  *out_path = WEFT_STR("");
  if (!s->is_saving || at.step == s->saved_step) return NULL;
  weft_status_t *failure = weft_checkpoint_save(&s->access, session, &at, &s->series, out_path);
  if (failure != NULL) {
    weft_str_t last = s->series.n > 0 ? s->series.names[s->series.n - 1] : WEFT_STR("");
    weft_status_t *told =
        weft_status_new(weft_status_code(failure), __FILE__, __LINE__,
                        "--save %s: step %" PRId64 " could not be saved: %s%s%.*s", s->spec->save, at.step,
                        weft_status_message(failure), last.length > 0 ? "; the last checkpoint is " : "",
                        WEFT_STR_ARGS(last));
    weft_status_free(failure);
    return told;
  }
  s->saved_step = at.step;
  s->saved_ns = weft_clock_ns();
  return NULL;
}
