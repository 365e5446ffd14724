/* services/run_options.h - RunOptions, both ways. */
#ifndef WEFT_SERVICES_RUN_OPTIONS_H_
#define WEFT_SERVICES_RUN_OPTIONS_H_

#include "base/arena.h"
#include "master/master_client.h"

WEFT_MUST_CHECK weft_status_t *weft_run_options_from_bytes(weft_str_t bytes, weft_arena_t *arena,
                                                           weft_step_options_t *out);
void weft_run_options_to_bytes(const weft_step_options_t *o, weft_strbuf_t *out);

#endif /* WEFT_SERVICES_RUN_OPTIONS_H_ */
