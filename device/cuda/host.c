/* device/cuda/host.c - what Weft gave to the library; library.c sets it. */
#include "device/cuda/launch.h"

const WEFT_DeviceHost *weft_cuda_host;
