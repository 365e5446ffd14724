/* Strings, patterns, files, prints and summaries: results as TensorFlow gives them. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void run(const weft_call_t *calls, size_t n) {
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  weft_expect_all(&bench, (weft_value_t){0}, calls, n);
  weft_bench_deinit(&bench);
}
#define RUN(calls) run(calls, sizeof(calls) / sizeof((calls)[0]))

static void values_become_text(void) {
  static const weft_call_t calls[] = {
      {"AsString", "", "float[3]:1.5,-2.25,10000000000",
       "string[3]:'1.500000','-2.250000','10000000000.000000'"},
      {"AsString", "", "int32[2]:1,-2", "string[2]:'1','-2'"},
      {"AsString", "width=6", "bool[2]:1,0", "string[2]:'true','false'"},
      {"AsString", "precision=2", "float[1]:1.5", "string[1]:'1.50'"},
      {"AsString", "scientific=true", "float[1]:1.5", "string[1]:'1.500000e+00'"},
      {"AsString", "shortest=true", "float[2]:1.5,0.1", "string[2]:'1.5','0.1'"},
      {"AsString", "width=5 fill='0'", "int32[1]:7", "string[1]:'00007'"},
      {"AsString", "width=4", "int32[1]:7", "string[1]:'   7'"},
      {"AsString", "width=4 fill='-'", "int64[1]:7", "string[1]:'7   '"},
      {"AsString", "", "complex64[1]:1:2", "string[1]:'(1.000000,2.000000)'"},
      {"AsString", "width=3", "string[1]:'a'", "string[1]:'  a'"},
      {"AsString", "", "uint64[1]:18446744073709551615", "string[1]:'18446744073709551615'"},
      {"AsString", "", "int64[2]:-9223372036854775808,0", "string[2]:'-9223372036854775808','0'"},
      {"AsString", "", "int8[1]:-128", "string[1]:'-128'"},
      {"AsString", "precision=0", "double[5]:0.5,1.5,2.5,-0.5,0.49999999999999994",
       "string[5]:'0','2','2','-0','0'"},
      {"AsString", "precision=3", "double[4]:0.0625,0.1875,1.0005,-0",
       "string[4]:'0.062','0.188','1.000','-0.000'"},
      {"AsString", "", "float[6]:nan,-inf,1e-45,0.0000005,3e38,16777216",
       "string[6]:'nan','-inf','0.000000','0.000000','300000000549775575777803994281145270272.000000',"
       "'16777216.000000'"},
      {"AsString", "precision=2", "int32[1]:7",
       "INVALID_ARGUMENT: precision not supported for datatype int32"},
      {"AsString", "fill='x'", "int32[1]:7", "INVALID_ARGUMENT: Fill argument not supported: \"x\""},
      {"AsString", "scientific=true", "int32[1]:7",
       "INVALID_ARGUMENT: scientific and shortest format not supported for datatype int32"},
      {"StringFormat", "template='t %s u %s' placeholder='%s' summarize=3 T=[int32,string]",
       "int32[2,2]:1,2,3,4 string[1]:'x'", "string[]:'t [[1 2]\n [3 4]] u [\"x\"]'"},
      {"StringFormat", "template='%s' summarize=2 T=[int32]", "int32[10]:0,1,2,3,4,5,6,7,8,9",
       "string[]:'[0 1 ... 8 9]'"},
      {"StringToNumber", "out_type=float", "string[3]:' 1.5 ','-2e3','inf'", "float[3]:1.5,-2000,inf"},
      {"StringToNumber", "out_type=float", "string[1]:'x'",
       "INVALID_ARGUMENT: StringToNumberOp could not correctly convert string: x"},
      {"StringToNumber", "out_type=int32", "string[1]:'7'", "int32[1]:7"},
      {"StringToNumber", "out_type=int32", "string[1]:'7.5'",
       "INVALID_ARGUMENT: StringToNumberOp could not correctly convert string: 7.5"},
      {"StringToNumber", "out_type=int64", "string[1]:''",
       "INVALID_ARGUMENT: StringToNumberOp could not correctly convert string: "},
      {"StringToNumber", "out_type=float", "string[1]:'0x10'", "float[1]:16"},
  };
  RUN(calls);
}

/* %f of numbers of all sizes, as the C library prints them. */
static void numbers_print_as_the_c_library_prints_them(void) {
  static const char *const attrs[] = {"", "precision=0", "precision=3", "precision=9", "precision=12"};
  static const int places[] = {6, 0, 3, 9, 12};
  enum { NUM = 4000 };
  const weft_shape_t shape = weft_shape_vector(NUM);
  weft_tensor_t *x = NULL;
  uint64_t bits = 1;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  weft_status_t *s = weft_tensor_new(WEFT_F64, &shape, NULL, &x);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < NUM; i++) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    const double whole = (double)(int64_t)bits, powers[] = {1, 0x1p-11, 0x1p-40, 0x1p-63, 0x1p-90, 0x1p-9};
    ((double *)x->data)[i] = i % 7 < 6 ? whole * powers[i % 7] : (double)(int)(bits >> 50) / 16;
  }
  for (size_t a = 0; a < sizeof attrs / sizeof attrs[0]; a++) {
    weft_tensor_t *out = NULL;
    int num = 0, wrong = 0;
    s = weft_run_op(&bench, "AsString", attrs[a], &x, 1, &out, 1, &num);
    CU_ASSERT_PTR_NULL_FATAL(s);
    for (int i = 0; i < NUM; i++) {
      char want[400];
      (void)snprintf(want, sizeof want, "%.*f", places[a], ((const double *)x->data)[i]);
      wrong += !weft_str_is(weft_tensor_str_at(out, i), want);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    weft_tensor_release(out);
  }
  weft_tensor_release(x);
  weft_bench_deinit(&bench);
}

static void errors_name_what_is_wrong(void) {
  static const weft_call_t calls[] = {
      {"Substr", "", "string[2]:'abc','a' int32[]:2 int32[]:1",
       "INVALID_ARGUMENT: pos 2 out of range for string b'a' at index 1"},
      {"Substr", "", "string[2,1]:'abcd','x' int32[2]:1,3 int32[2]:1,1",
       "INVALID_ARGUMENT: pos 3 out of range for string b'x' at index (1, 1)"},
      {"Substr", "", "string[2,2]:'abcd','x','abcd','y' int32[2,2]:1,1,1,3 int32[2,2]:1,1,1,1",
       "INVALID_ARGUMENT: pos 3 out of range for string b'y' at index 3"},
      {"Substr", "unit='UTF8_CHAR'", "string[2,1]:'abcd','x' int32[2]:1,3 int32[2]:1,1",
       "INVALID_ARGUMENT: pos 3 out of range for string at index 1"},
      {"DecodeBase64", "", "string[]:'YQ==='", "INVALID_ARGUMENT: Invalid character found in base64."},
      {"DecodeBase64", "", "string[]:'YWJjY'",
       "INVALID_ARGUMENT: Base64 string length cannot be 1 modulo 4."},
      {"DecodeBase64", "", "string[3]:'YWJj','YQ==','YWI'", "string[3]:'abc','a','ab'"},
      {"DecodeRaw", "out_type=int8", "string[2]:'abcd','ab'",
       "INVALID_ARGUMENT: DecodeRaw requires input strings to all be the same size, but element 1 has size 4 "
       "!= 2"},
      {"DecodePaddedRaw", "out_type=float", "string[]:'abcd' int32[]:-1",
       "INVALID_ARGUMENT: fixed_length (-1) must be a multiple of the size of out_type (4)"},
      {"SparseToDense", "T=float", "int64[2,2]:0,1,0,1 int64[2]:2,2 float[]:1 float[]:0",
       "INVALID_ARGUMENT: indices[1] = [0,1] is repeated"},
      {"SparseToDense", "T=float", "int32[2]:1,9 int32[1]:4 float[]:1 float[]:0",
       "INVALID_ARGUMENT: indices[1] = [9] is out of bounds: need 0 <= index < [4]"},
      {"SparseToDense", "T=float validate_indices=false", "int32[2]:1,9 int32[1]:4 float[]:1 float[]:0",
       "INVALID_ARGUMENT: Indices are not valid (out of bounds).  Shape: [4]"},
      {"SparseToDense", "T=float", "int32[2,2]:1,1,0,1 int32[2]:2,2 float[]:1 float[]:0",
       "INVALID_ARGUMENT: indices[1] = [0,1] is out of order. Many sparse ops require sorted indices.\n"
       "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n"},
  };
  RUN(calls);
}

static void strings_are_joined(void) {
  static const weft_call_t calls[] = {
      {"StringJoin", "separator='-' N=2", "string[]:'a' string[2]:'b','c'", "string[2]:'a-b','a-c'"},
      {"StringJoin", "N=2", "string[1]:'a' string[2]:'b','c'",
       "INVALID_ARGUMENT: Input shapes do not match: [1] vs. [2]"},
      {"ReduceJoin", "", "string[2,2]:'a','b','c','d' int32[1]:0", "string[2]:'ac','bd'"},
      {"ReduceJoin", "separator='.'", "string[2,2]:'a','b','c','d' int32[2]:0,1", "string[]:'a.c.b.d'"},
      {"ReduceJoin", "keep_dims=true", "string[2,2]:'a','b','c','d' int32[2]:1,0", "string[1,1]:'abcd'"},
      {"ReduceJoin", "", "string[2,2]:'a','b','c','d' int32[0]:", "string[2,2]:'a','b','c','d'"},
      {"ReduceJoin", "", "string[1,2]:'a','b' int32[1]:5",
       "OUT_OF_RANGE: Invalid reduction dimension 5 for input with 2 dimension(s)"},
      {"ReduceJoin", "", "string[1,2]:'a','b' int32[2]:1,-1",
       "INVALID_ARGUMENT: Duplicate reduction dimension -1"},
      {"ShardedFilename", "", "string[]:'a' int32[]:3 int32[]:10", "string[]:'a-00003-of-00010'"},
      {"ShardedFilespec", "", "string[]:'a' int32[]:10", "string[]:'a-\?\?\?\?\?-of-00010'"},
  };
  RUN(calls);
}

static void patterns_match_and_replace(void) {
  static const weft_call_t calls[] = {
      {"StaticRegexFullMatch", "pattern='^s3://.*'", "string[2]:'s3://a','xs3://'", "bool[2]:1,0"},
      {"StaticRegexReplace", "pattern=X rewrite=_", "string[2]:'aXbX',''", "string[2]:'a_b_',''"},
      {"StaticRegexReplace", "pattern=X rewrite=_ replace_global=false", "string[1]:'aXbX'",
       "string[1]:'a_bX'"},
      {"StaticRegexReplace", "pattern='(b)(c)' rewrite='\\2\\1'", "string[1]:'abc'", "string[1]:'acb'"},
      {"StaticRegexReplace", "pattern='x*' rewrite='-'", "string[1]:'abc'", "string[1]:'-a-b-c-'"},
      {"RegexFullMatch", "", "string[1]:'abc' string[]:'a('",
       "INVALID_ARGUMENT: Invalid pattern: a(, error: missing ): a("},
      {"RegexFullMatch", "", "string[2]:'abc','b' string[]:'a.c'", "bool[2]:1,0"},
      /* A byte that is not UTF-8 matches nothing, and so the whole string does not match. */
      {"RegexFullMatch", "",
       "string[4]:'a\xff"
       "b','\xff\xc3"
       "abc','a\xc3','a' string[]:'[ab].*'",
       "bool[4]:0,0,0,1"},
      {"StaticRegexFullMatch", "pattern='.*'", "string[4]:'a\xff','\xff','\xe4\xbd',''", "bool[4]:0,0,0,1"},
  };
  RUN(calls);
}

static void a_pattern_without_end_is_stopped(void) {
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  weft_tensor_t *in = NULL, *out = NULL;
  const char *text = "string[1]:'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'";
  int n = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_parse(&text, &in));
  weft_status_t *s = weft_run_op(&bench, "StaticRegexFullMatch", "pattern='(a|a)*b'", &in, 1, &out, 1, &n);
  CU_ASSERT_TRUE(s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED);
  weft_status_free(s);
  weft_tensor_release(in);
  weft_tensor_release(out);
  weft_bench_deinit(&bench);
}

static void a_failed_assertion_shows_its_data(void) {
  static const weft_call_t calls[] = {
      {"Assert", "T=[int32,string] summarize=3", "bool[]:0 int32[4]:1,2,3,4 string[]:'x'",
       "INVALID_ARGUMENT: assertion failed: [1 2 3...] [x]"},
      {"Assert", "T=[float,bool,int32] summarize=3", "bool[]:0 float[2,2]:1.5,2,3,4 bool[]:1 int32[]:7",
       "INVALID_ARGUMENT: assertion failed: [[1.5 2][3...]...] [1] [7]"},
      {"Assert", "T=[int32]", "bool[1]:0 int32[]:1", "INVALID_ARGUMENT: In[0] should be a scalar: [1]"},
      {"Assert", "T=[int32]", "bool[]:1 int32[]:1", ""},
  };
  RUN(calls);
}

static void files_are_read_and_written_whole(void) {
  char path[256], in_write[600], in_read[400];
  const char *root = getenv("TEST_TMPDIR");
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  snprintf(path, sizeof path, "%s/weft_file_test/a/b", root == NULL ? "/tmp" : root);
  snprintf(in_write, sizeof in_write, "string[]:'%s' string[]:'hello'", path);
  snprintf(in_read, sizeof in_read, "string[]:'%s'", path);
  weft_expect(&bench, (weft_value_t){0}, "WriteFile", "", in_write, "");
  weft_expect(&bench, (weft_value_t){0}, "ReadFile", "", in_read, "string[]:'hello'");
  weft_expect(&bench, (weft_value_t){0}, "ReadFile", "", "string[]:'/no/such'",
              "NOT_FOUND: /no/such; No such file or directory");
  snprintf(in_read, sizeof in_read, "string[2]:'%.*s*','/nope*'", (int)strlen(path) - 1, path);
  snprintf(in_write, sizeof in_write, "string[1]:'%s'", path);
  weft_expect(&bench, (weft_value_t){0}, "MatchingFiles", "", in_read, in_write);
  weft_bench_deinit(&bench);
}

/* Bytes as TensorFlow writes them. */
static void expect_bytes(const char *op, const char *attrs, const char *inputs, const char *want,
                         size_t want_length) {
  weft_tensor_t *in[4] = {NULL}, *out = NULL;
  int n = 0, num_out = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  n = weft_tensors_parse(inputs, in, 4);
  weft_status_t *s = weft_run_op(&bench, op, attrs, in, n, &out, 1, &num_out);
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_str_t got = weft_tensor_str_at(out, 0);
  CU_ASSERT_EQUAL(got.length, want_length);
  CU_ASSERT_TRUE(got.length == want_length && memcmp(got.data, want, want_length) == 0);
  weft_tensor_release(out);
  for (int i = 0; i < n; i++) weft_tensor_release(in[i]);
  weft_bench_deinit(&bench);
}
#define BYTES(op, attrs, inputs, want) expect_bytes(op, attrs, inputs, want, sizeof(want) - 1)

static void summaries_have_tensorflows_bytes(void) {
  BYTES("ScalarSummary", "", "string[]:'a' float[]:1.5",
        "\n\x08\n\x01"
        "a\x15\x00\x00\xc0?");
  BYTES("ScalarSummary", "", "string[]:'a' float[]:0",
        "\n\x08\n\x01"
        "a\x15\x00\x00\x00\x00");
  BYTES("ScalarSummary", "", "string[2]:'a','b' int32[2]:1,2",
        "\n\x08\n\x01"
        "a\x15\x00\x00\x80?\n\x08\n\x01"
        "b\x15\x00\x00\x00@");
  BYTES("HistogramSummary", "", "string[]:'h' float[0]:",
        "\n+\n\x01h*&\t\xff\xff\xff\xff\xff\xff\xef\x7f\x11\xff\xff\xff\xff\xff\xff\xef\xff"
        "2\x08\xff\xff\xff\xff\xff\xff\xef\x7f:\x08\x00\x00\x00\x00\x00\x00\x00\x00");
  BYTES("HistogramSummary", "", "string[]:'h' float[1]:0",
        "\nB\n\x01h*=\x19\x00\x00\x00\x00\x00\x00\xf0?2\x18\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x11\xea-\x81\x99\x97q=\xff\xff\xff\xff\xff\xff\xef\x7f"
        ":\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00\x00");
  BYTES("TensorSummaryV2", "", "string[]:'t' float[2]:1,2 string[]:''",
        "\n\x19\n\x01tB\x12\x08\x01\x12\x04\x12\x02\x08\x02\"\x08\x00\x00\x80?\x00\x00\x00@J\x00");
  BYTES("TensorSummary", "", "int32[1]:1",
        "\n\x13:\x01nB\x0e\x08\x03\x12\x04\x12\x02\x08\x01\"\x04\x01\x00\x00\x00");
  BYTES("AudioSummaryV2", "max_outputs=1", "string[]:'i' float[1,2,1]:0.5,-1 float[]:8000",
        "\nQ\n\x07i/audio2F\r\x00\x00\xfa"
        "E\x10\x01\x18\x02\"0RIFF(\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01"
        "\x00@\x1f\x00\x00\x80>\x00\x00\x02\x00\x10\x00"
        "data\x04\x00\x00\x00\x00@\x00\x80*\taudio/wav");
}

static void summaries_that_make_no_sense_are_refused(void) {
  static const weft_call_t calls[] = {
      {"ScalarSummary", "", "string[2]:'a','b' int32[1]:1",
       "INVALID_ARGUMENT: tags and values are not the same shape: [2] != [1]"},
      {"ScalarSummary", "", "string[]:'a' int32[2]:1,2",
       "INVALID_ARGUMENT: tags and values are not the same shape: [] != [2] (tag 'a')"},
      {"HistogramSummary", "", "string[]:'h' float[1]:nan",
       "INVALID_ARGUMENT: Nan in summary histogram for: n"},
      {"HistogramSummary", "", "string[]:'h' float[1]:inf", "INVALID_ARGUMENT: Infinity in Histogram for: n"},
      {"MergeSummary", "N=2", "string[]:'\\x0a\\x03\\x0a\\x01a' string[]:'\\x0a\\x03\\x0a\\x01a'",
       "INVALID_ARGUMENT: Duplicate tag a found in summary inputs "},
      {"MergeSummary", "N=1", "string[]:'\\x0a\\x70'",
       "INVALID_ARGUMENT: Could not parse one of the summary inputs"},
      {"ImageSummary", "", "string[]:'i' float[1,2,2]:0,0,0,0",
       "INVALID_ARGUMENT: Tensor must be 4-D with last dim 1, 3, or 4, not [1,2,2]"},
  };
  RUN(calls);
}

static const CU_TestInfo tests[] = {
    {"values become text", values_become_text},
    {"numbers print as the C library prints them", numbers_print_as_the_c_library_prints_them},
    {"errors name what is wrong", errors_name_what_is_wrong},
    {"strings are joined", strings_are_joined},
    {"patterns match and replace", patterns_match_and_replace},
    {"a pattern without end is stopped", a_pattern_without_end_is_stopped},
    {"a failed assertion shows its data", a_failed_assertion_shows_its_data},
    {"files are read and written whole", files_are_read_and_written_whole},
    {"summaries have TensorFlow's bytes", summaries_have_tensorflows_bytes},
    {"summaries that make no sense are refused", summaries_that_make_no_sense_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("string", tests); }
