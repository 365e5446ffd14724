/* tools/cmd_run.c - `weft run`: a signature of a SavedModel, once, and what it gives. */
#include "tools/command.h"
#include "tools/options.h"
#include "tools/submit/submit.h"

static const char more[] =
    "A SavedModel is restored first: its variables, its tables. An input takes a value (3, [[1, 2], [3, "
    "4]],\n"
    "a text, [\"a\", \"b\"]) or an array from a NumPy file; a single value for an input that is an array "
    "becomes one\n"
    "of one element. With --master the servers of the cluster run it; they read the model's files.\n"
    "Variables and tables are this run's own.\n";

static const char examples[] =
    "  weft run model_dir --feed x='[[1, 2, 3]]'\n"
    "  weft run model_dir --signature serving_default --feed images=images.npy --fetch scores --json\n"
    "  weft run model_dir --feed text='[\"the quick\", \"brown fox\"]' --save-fetch ids=ids.npy\n"
    "  weft inspect model_dir    # says which signatures there are, and what they take\n";

int weft_command_run(int argc, char **argv) {
  weft_submit_spec_t j = {.steps = 1, .signature = "serving_default", .is_isolated = true};
  bool json = false;
  int code;
  const weft_option_t options[] = {
      {"signature", "NAME", "Which of the model's signatures (default serving_default)",
       .text = &j.signature},
      {"feed", "NAME=VALUE", "The value of an input: a number, a text, a list, or FILE.npy. May be repeated",
       .texts = &j.feeds, .kind = WEFT_VALUE_NAMED_FILE},
      {"fetch", "NAME", "Show this output (default: all). May be repeated", .texts = &j.fetches},
      {"save-fetch", "NAME=FILE.npy", "Save this output. May be repeated", .texts = &j.saves,
       .kind = WEFT_VALUE_NAMED_FILE},
      {"tags", "TAG,TAG", "Which of the model's graphs (default: the only one, or serve)", .text = &j.tags},
      {"master", "grpc://HOST:PORT", "The master that runs it (default: in this process)", .text = &j.master},
      {"json", NULL, "One object for machines: the outputs by name", .flag = &json},
  };
  const weft_command_line_t line = {
      .command = "weft run",
      .about = "Runs a signature of a SavedModel once and shows its outputs.",
      .more = more,
      .examples = examples,
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .argument_name = "MODEL_DIR",
      .argument = &j.graph_path,
      .argument_is_missing = "which MODEL_DIR? give the folder that has saved_model.pb",
      .argument_kind = WEFT_VALUE_FOLDER,
      .exit_codes = weft_submit_exit_codes,
      .num_exit_codes = weft_submit_num_exit_codes,
  };
  WEFT_InitJobOptions(&j.options);
  if (weft_options_read(&line, argc, argv, &code)) {
    int signal_number = 0;
    j.style = json ? WEFT_PROGRESS_VALUES_JSON : WEFT_PROGRESS_VALUES;
    code = weft_command_flush(weft_command_fail(weft_submit_run(&j, &signal_number)));
    if (code != 0 && signal_number != 0) code = 128 + signal_number;
  }
  weft_texts_deinit(&j.feeds);
  weft_texts_deinit(&j.fetches);
  weft_texts_deinit(&j.saves);
  return code;
}
