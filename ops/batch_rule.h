/* ops/batch_rule.h - how an op treats rows of a batch that lie on several replicas, where neither its flags
 * nor its factor notation (ops/factors.h) say it.
 *
 * Part of an op's record. What each rule does is in sharding/data, in the function of its name.
 */
#ifndef WEFT_OPS_BATCH_RULE_H_
#define WEFT_OPS_BATCH_RULE_H_

typedef enum weft_batch_rule {
  WEFT_BATCH_BY_FLAGS, /* what the factor notation says, or the flags: elementwise, an update, control flow, a
                          placeholder; else the op runs once, on what all replicas have together: always
                          right, and slow */
  /* elements, one by one */
  WEFT_BATCH_SAME_SHAPES, /* operands are of one shape, so that a rank that is not known does no harm */
  WEFT_BATCH_QUOTIENT,    /* input 1 divides */
  WEFT_BATCH_SELECT,
  WEFT_BATCH_ZEROS_LIKE, /* only the shape of input 0 matters */
  WEFT_BATCH_ONES_LIKE,
  /* what is needed everywhere alike */
  WEFT_BATCH_REPLICATE, /* computed by every replica, from all of the inputs */
  WEFT_BATCH_PASS_ALL,  /* outputs are inputs */
  WEFT_BATCH_METADATA,  /* of the shape of input 0 */
  WEFT_BATCH_PLACEHOLDER,
  WEFT_BATCH_READ,       /* the value of a variable, its shape, whether it has one */
  WEFT_BATCH_ASSERT,     /* looks at its inputs; input 0 is a condition */
  WEFT_BATCH_CHECK,      /* looks at its inputs */
  WEFT_BATCH_PRINT,      /* passes input 0 on and shows the others, once */
  WEFT_BATCH_PRINT_TEXT, /* shows its inputs, once */
  /* batch normalisation, over the rows that a replica has */
  WEFT_BATCH_BATCH_NORM,
  WEFT_BATCH_BATCH_NORM_GRAD,
  /* reductions */
  WEFT_BATCH_REDUCE_SUM,
  WEFT_BATCH_REDUCE_MEAN,
  WEFT_BATCH_REDUCE_ORDER, /* the greatest, the least, all, any */
  WEFT_BATCH_REDUCE_PROD,  /* products and norms */
  WEFT_BATCH_SEGMENT,
  /* elements moved */
  WEFT_BATCH_BROADCAST,
  WEFT_BATCH_CONCAT,
  WEFT_BATCH_CONCAT_AXIS_FIRST,
  WEFT_BATCH_EMPTY,
  WEFT_BATCH_EXPAND,
  WEFT_BATCH_FILL,
  WEFT_BATCH_GATHER,      /* along dimension 0 */
  WEFT_BATCH_GATHER_AXIS, /* along the dimension in input 2 */
  WEFT_BATCH_GATHER_ND,
  WEFT_BATCH_GATHER_VARIABLE, /* rows of a variable */
  WEFT_BATCH_ONE_HOT,
  WEFT_BATCH_PACK,
  WEFT_BATCH_PARTITION,
  WEFT_BATCH_RANGE,
  WEFT_BATCH_RESHAPE,
  WEFT_BATCH_SCATTER_ND,
  WEFT_BATCH_SLICE,
  WEFT_BATCH_SQUEEZE,
  WEFT_BATCH_STITCH,
  WEFT_BATCH_STRIDED_SLICE,
  WEFT_BATCH_STRIDED_SLICE_GRAD,
  WEFT_BATCH_TILE,
  /* random numbers and readers */
  WEFT_BATCH_RANDOM_ROWS, /* a part of the numbers can be drawn alone */
  WEFT_BATCH_RANDOM_WHOLE,
  WEFT_BATCH_RANDOM_CHOICE,
  WEFT_BATCH_SHUFFLE,
  WEFT_BATCH_BATCH_READER, /* rows of it are a batch */
  /* arrays, stacks, lists, optionals */
  WEFT_BATCH_NEW_ARRAY,
  WEFT_BATCH_ARRAY_GRAD,
  WEFT_BATCH_ARRAY_WRITE,
  WEFT_BATCH_ARRAY_SCATTER,
  WEFT_BATCH_ARRAY_READ,
  WEFT_BATCH_ARRAY_GATHER,
  WEFT_BATCH_ARRAY_SIZE,
  WEFT_BATCH_NEW_STACK,
  WEFT_BATCH_PUSH,
  WEFT_BATCH_POP,
  WEFT_BATCH_NEW_LIST,
  WEFT_BATCH_LIST_FROM,
  WEFT_BATCH_LIST_PUSH,
  WEFT_BATCH_LIST_SET,
  WEFT_BATCH_LIST_GET,
  WEFT_BATCH_LIST_POP,
  WEFT_BATCH_LIST_SAME,
  WEFT_BATCH_LIST_STACK,
  WEFT_BATCH_LIST_GATHER,
  WEFT_BATCH_LIST_SCATTER,
  WEFT_BATCH_LIST_SCATTER_INTO,
  WEFT_BATCH_OPTIONAL_FROM,
  WEFT_BATCH_OPTIONAL_GET,
  WEFT_BATCH_OWN,
  WEFT_NUM_BATCH_RULES
} weft_batch_rule_t;

#endif /* WEFT_OPS_BATCH_RULE_H_ */
