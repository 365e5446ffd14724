/* tests/ports.h - ports for servers that a test starts. */
#ifndef WEFT_TESTS_PORTS_H_
#define WEFT_TESTS_PORTS_H_

/* A port of 127.0.0.1 on which this test can start a server, and start it again after its end. Until this
 * process ends, no other process is given the port: neither by bind() to port 0 nor for an outgoing
 * connection. */
int weft_test_free_port(void);

#endif /* WEFT_TESTS_PORTS_H_ */
