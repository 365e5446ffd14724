/* weft/version.h - which Weft this is. The one place that says it: the command, the packages and the manual
 * pages read it here. */
#ifndef WEFT_VERSION_H_
#define WEFT_VERSION_H_

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION "0.1.0"
#define WEFT_VERSION_DATE "November 28, 2026" /* of the manual pages */

/* The version of the library that the program runs with; WEFT_VERSION is that of the headers that it was
 * compiled with. Static. TF_Version() says which TensorFlow's interface, files and protocol it has. */
TF_CAPI_EXPORT extern const char *WEFT_Version(void);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_VERSION_H_ */
