/* What the headers of the language would say, where there are none: NVRTC compiles a text alone. */
#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
#define INT64_C(value) value##ll
#define UINT32_C(value) value##u
#define UINT64_C(value) value##ull

#define INFINITY __int_as_float(0x7F800000)
#define NAN __int_as_float(0x7FC00000)

/* Every GPU rounds x y + z once. */
#define __FMA__ 1

/* Waits for the launches that this one depends on, where it may have begun before their end. */
static inline void weft_await(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
