/* tools/cmd_submit.c - `weft submit`: a job on a cluster that stands, or in this process. */
#include "tools/command.h"
#include "tools/submit/job_line.h"

static const char more[] =
    "NAME is NODE or NODE:OUTPUT. Variables on a cluster live on after the run: a second run without --init "
    "goes\n"
    "on with them, in the same --container; with --init it starts as on fresh servers. Ctrl-C cancels\n"
    "the step, also on the cluster. Checkpoints are read and written by this process and\n"
    "do not depend on the strategy: train with one, go on with another (docs/saving.md).\n";

static const char examples[] =
    "  weft submit digits.pb --master grpc://127.0.0.1:2221 --init init --target train --fetch loss \\\n"
    "      --feed images=images.npy --feed labels=labels.npy --batch 64 --shuffle --steps 700\n"
    "  weft submit digits.pb --strategy mirrored:2 --init init --target train --fetch loss --trace step.json "
    "\\\n"
    "      --feed images=images.npy --feed labels=labels.npy --batch 64 --steps 700\n"
    "  weft submit digits.pb --strategy mirrored:2 --init init --target train --fetch loss --steps 5000 \\\n"
    "      --feed images=images.npy --feed labels=labels.npy --batch 64 --save run/digits --resume\n"
    "  weft submit digits.pb --restore run/digits-5000 --feed images=test.npy --save-fetch "
    "predictions=out.npy\n"
    "  weft submit model.pb --feed x=x.npy --feed y=y.npy --batch 64 --steps 1000 "
    "--save run/model\n"
    "  weft submit model_dir --signature train --strategy mirrored:2 --feed x=x.npy --feed y=y.npy \\\n"
    "      --batch 64 --steps 1000 --save run/served\n"
    "  weft submit add.pbtxt --feed x=3 --feed y=-0.5 --fetch sum\n"
    "  weft submit model.pb --signature predict --restore run/model-1000 --feed x=x.npy --save-fetch "
    "predictions=out.npy "
    "--json\n";

int weft_command_submit(int argc, char **argv) {
  weft_job_line_t j;
  weft_job_line_init(&j);
  const weft_command_line_t line = {
      .command = "weft submit",
      .about =
          "Runs a graph file (.pb, .pbtxt), a meta graph or the folder of a SavedModel step by step, on a "
          "cluster or in this process.",
      .more = more,
      .examples = examples,
      .options = j.options,
      .num_options = j.num_options,
      .argument_name = "GRAPH",
      .argument = &j.spec.graph_path,
      .argument_is_missing = "which GRAPH? give a .pb or .pbtxt file, or the folder of a SavedModel",
      .argument_kind = WEFT_VALUE_FILE,
      .exit_codes = weft_submit_exit_codes,
      .num_exit_codes = weft_submit_num_exit_codes,
  };
  int code;
  if (weft_options_read(&line, argc, argv, &code)) {
    code = weft_job_line_check(&j, &line);
    if (code == 0) code = weft_job_line_run(&j);
  }
  weft_job_line_deinit(&j);
  return code;
}
