/* tests/rpc/tsan.h - libgrpc is not built with ThreadSanitizer, which so misses its locks and sees races in
 * it that are none: messages that come on two threads share the memory that they were read into, which
 * libgrpc counts. Neither does it see that a thread whose stack, and with it the variables of its own, is
 * reused has ended. Included by one file of each test that uses gRPC. */
#ifndef WEFT_TESTS_RPC_TSAN_H_
#define WEFT_TESTS_RPC_TSAN_H_

/* Exported: libtsan.so looks for it. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
  return "called_from_lib:libgrpc.so\ncalled_from_lib:libgpr.so\nrace:libgrpc.so\nrace:libgpr.so\nrace:"
         "libabsl\nrace:^weft_message_destroy\nrace:_dl_deallocate_tls\nrace:^operator "
         "delete\nrace:^operator new\nmutex:libgrpc.so\n";
}

#endif /* WEFT_TESTS_RPC_TSAN_H_ */
