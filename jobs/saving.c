/* jobs/saving.c - what is restored, when is saved. */
#include "jobs/saving.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "graph/graph_proto.h"

bool weft_job_saving_is_used(const weft_job_saving_spec_t *spec) {
  return spec->restore != NULL || spec->save != NULL;
}

void weft_job_saving_deinit(weft_job_saving_t *s) {
  if (s->spec == NULL) return; /* never made */
  weft_access_deinit(&s->access);
  weft_restore_close(&s->restore);
  weft_series_deinit(&s->series);
  weft_saved_variables_deinit(&s->variables);
  weft_graph_destroy(s->graph);
  *s = (weft_job_saving_t){0};
}

/* ---- what to start from ---- */

/* A damaged checkpoint is not passed over silently; the message says how to go on from the one before it. */
static weft_status_t *damaged_series(const weft_job_saving_t *s, weft_status_t *failure) {
  weft_code_t code = weft_status_code(failure);
  if ((code != WEFT_DATA_LOSS && code != WEFT_NOT_FOUND) || s->series.n < 2) return failure;
  weft_status_t *told = weft_status_new(
      code, __FILE__, __LINE__, "%s; to go on from %.*s, remove %s.index", weft_status_message(failure),
      WEFT_STR_ARGS(s->series.names[s->series.n - 2]), s->series.latest.data);
  weft_status_free(failure);
  return told;
}

static weft_status_t *open_restore(weft_job_saving_t *s) {
  const weft_job_saving_spec_t *spec = s->spec;
  weft_str_t path;
  if (spec->resumes && s->series.latest.length > 0) {
    WEFT_RETURN_IF_ERROR(
        damaged_series(s, weft_restore_open(spec->words, spec->words->resume, s->series.latest, &s->variables,
                                            spec->is_partial, &s->restore)));
    s->first = s->restore.position.step;
    s->saved_step = s->first;
    return NULL;
  }
  if (spec->restore == NULL) return NULL;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *failure = weft_series_resolve(spec->restore, &arena, &path);
  if (failure != NULL) {
    weft_status_t *told = weft_status_new(weft_status_code(failure), __FILE__, __LINE__, "%s %s",
                                          spec->words->restore, weft_status_message(failure));
    weft_status_free(failure);
    failure = told;
  }
  if (failure == NULL)
    failure = weft_restore_open(spec->words, spec->words->restore, path, &s->variables, spec->is_partial,
                                &s->restore);
  weft_arena_deinit(&arena);
  return failure;
}

static weft_status_t *open_series(weft_job_saving_t *s) {
  if (s->spec->save == NULL) return NULL;
  s->is_saving = true;
  return weft_series_open(s->spec->words->save, s->spec->save, (int)s->spec->keep, s->spec->resumes,
                          &s->series);
}

weft_status_t *weft_job_saving_init(weft_job_saving_t *out, const weft_job_saving_spec_t *spec,
                                    weft_str_t graph_def, const weft_str_t *step, int num_step) {
  const weft_import_options_t import = {.is_client_api = true};
  *out = (weft_job_saving_t){.spec = spec, .saved_step = -1, .saved_ns = weft_clock_ns(), .round = 1};
  WEFT_RETURN_IF_ERROR(weft_graph_create(&out->graph));
  WEFT_RETURN_IF_ERROR(weft_graph_import(out->graph, graph_def, &import));
  WEFT_RETURN_IF_ERROR(weft_saved_variables_find(out->graph, step, num_step, &out->variables));
  if (out->variables.n == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: the graph has no variables",
                      spec->save != NULL ? spec->words->save : spec->words->restore);
  }
  WEFT_RETURN_IF_ERROR(open_series(out));
  return open_restore(out);
}

bool weft_job_saving_resumes(const weft_job_saving_t *s) {
  return s->spec != NULL && s->spec->resumes && s->restore.source != NULL && s->restore.has_position &&
         s->series.latest.length > 0;
}

void weft_job_saving_seek(weft_job_saving_t *s, weft_job_inputs_t *inputs, weft_strbuf_t *note) {
  const weft_job_position_t *at = &s->restore.position;
  if (!weft_job_saving_resumes(s)) return;
  if (inputs->rows == 0) {
    inputs->num_given = at->rows == 0 ? at->epoch : 0;
    return;
  }
  if (at->rows != inputs->rows) {
    weft_strbuf_puts(note, "the data have another number of rows than before: they begin with the first row");
  } else if (at->is_shuffled != inputs->is_shuffled || (at->is_shuffled && at->seed != inputs->seed)) {
    weft_strbuf_printf(note, "%s or %s are not as before: the data begin with the first row",
                       s->spec->words->shuffle, s->spec->words->seed);
  } else {
    weft_job_inputs_seek(inputs, at->epoch, at->row);
  }
}

weft_job_position_t weft_job_position(const weft_job_inputs_t *inputs, int64_t done) {
  if (inputs->rows == 0)
    return (weft_job_position_t){.step = done, .epoch = inputs->num_sources > 0 ? inputs->num_given : 0};
  return (weft_job_position_t){.step = done,
                               .epoch = inputs->epoch,
                               .row = inputs->next,
                               .rows = inputs->rows,
                               .is_shuffled = inputs->is_shuffled,
                               .seed = inputs->seed};
}

/* ---- with the graph that runs ---- */

weft_status_t *weft_job_saving_attach(weft_job_saving_t *s, TF_Graph *graph, bool is_rewritten,
                                      bool is_follower, int round) {
  s->round = round > 1 ? round : 1;
  if (is_follower) s->is_saving = false;
  if (s->is_saving) {
    WEFT_RETURN_IF_ERROR(weft_series_check_place(&s->series));
    WEFT_RETURN_IF_ERROR(weft_series_check_room(&s->series, weft_checkpoint_bytes(&s->variables)));
  }
  return weft_access_init(graph, &s->variables, is_rewritten, &s->access);
}

weft_status_t *weft_job_saving_restore(weft_job_saving_t *s, TF_Session *session) {
  if (s->restore.source == NULL) return NULL;
  return weft_restore_run(&s->restore, &s->access, session);
}

weft_status_t *weft_job_saving_restore_iterators(weft_job_saving_t *s, TF_Session *session,
                                                 const weft_job_iterators_t *iterators, weft_strbuf_t *note) {
  if (!weft_job_saving_resumes(s)) return NULL;
  return weft_job_iterators_restore(iterators, session, s->restore.source, note);
}

/* ---- when ---- */

/* The next multiple of `every` after `done` at which a round ends, or the first such step after it. */
static int64_t next_step(const weft_job_saving_t *s, int64_t done, int64_t every) {
  int64_t next;
  if (every == 0 || __builtin_add_overflow(done - done % every, every, &next)) return INT64_MAX;
  const int64_t over = (next - s->first) % s->round;
  return over == 0 ? next : next + s->round - over;
}

int64_t weft_job_saving_next_step(const weft_job_saving_t *s, int64_t done) {
  if (!s->is_saving) return INT64_MAX;
  const int64_t next = next_step(s, done, s->spec->every_steps),
                also = next_step(s, done, s->spec->also_steps);
  return next < also ? next : also;
}

bool weft_job_saving_is_due(const weft_job_saving_t *s) {
  return s->is_saving && s->spec->every_ns > 0 && weft_clock_ns() - s->saved_ns >= s->spec->every_ns;
}

static bool ends_round(const weft_job_saving_t *s, int64_t step) {
  return s->round <= 1 || (step - s->first) % s->round == 0;
}

void weft_job_saving_step(weft_job_saving_t *s, const weft_job_position_t *now) {
  if (s->round > 1 && ends_round(s, now->step)) s->mark = *now;
}

static weft_status_t *save(weft_job_saving_t *s, TF_Session *session, weft_job_iterators_t *iterators,
                           const weft_job_position_t *at, weft_str_t *out_path, weft_strbuf_t *note) {
  weft_checkpoint_extras_t extras = {0};
  weft_status_t *failure = weft_job_iterators_save(iterators, session, &extras, note);
  if (failure == NULL) failure = weft_checkpoint_save(&s->access, session, at, &extras, &s->series, out_path);
  weft_checkpoint_extras_deinit(&extras);
  return failure;
}

weft_status_t *weft_job_saving_save(weft_job_saving_t *s, TF_Session *session,
                                    weft_job_iterators_t *iterators, const weft_job_position_t *now,
                                    weft_str_t *out_path, weft_strbuf_t *note) {
  const weft_job_position_t at = ends_round(s, now->step) ? *now : s->mark;
  *out_path = WEFT_STR("");
  if (!s->is_saving || at.step == s->saved_step) return NULL;
  weft_status_t *failure = save(s, session, iterators, &at, out_path, note);
  if (failure != NULL) {
    weft_str_t last = s->series.n > 0 ? s->series.names[s->series.n - 1] : WEFT_STR("");
    weft_status_t *told = weft_status_new(
        weft_status_code(failure), __FILE__, __LINE__, "%s %s: step %" PRId64 " could not be saved: %s%s%.*s",
        s->spec->words->save, s->spec->save, at.step, weft_status_message(failure),
        last.length > 0 ? "; the last checkpoint is " : "", WEFT_STR_ARGS(last));
    weft_status_free(failure);
    return told;
  }
  s->saved_step = at.step;
  s->saved_ns = weft_clock_ns();
  return NULL;
}
