/* kernels/cpu/loops/map_apply.tmpl.h - MAP_APPLY: the expression of map1.tmpl.h and map2.tmpl.h for the kind
 * of numbers at hand, and what it may use. */
#if defined(IS_COMPLEX) && defined(MAP_COMPLEX_EXPR)
#define MAP_APPLY MAP_COMPLEX_EXPR
#elif defined(IS_INTEGER) && defined(MAP_INT_EXPR)
#define MAP_APPLY MAP_INT_EXPR
#else
#define MAP_APPLY MAP_EXPR
#endif
#ifdef IS_UNSIGNED
#define IS_NEGATIVE(v) false
#define IS_MINUS_ONE(v) false
#else
#define IS_NEGATIVE(v) ((v) < 0)
#define IS_MINUS_ONE(v) ((v) == (COMP)-1)
#endif
#ifdef MAP_BOOL
#define MAP_OUT uint8_t
#define MAP_STORE(v) ((uint8_t)(v))
#else
#define MAP_OUT ELEM
#define MAP_STORE(v) STORE(v)
#endif
#ifdef MAP_WRAPS
#define MAP_COMP WRAP
#else
#define MAP_COMP COMP
#endif
