/* benchmarks/peers/mpi_allreduce.c - seconds of Open MPI's all-reduce, for benchmarks/compare_collectives.
 *
 * Usage: mpirun -n N mpi_allreduce COUNT ROUNDS. Rank 0 prints one line: the seconds of each round, in place,
 * over floats; before each round there is a barrier. Sums are checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long count = argc > 1 ? atol(argv[1]) : 1 << 24;
  int rounds = argc > 2 ? atoi(argv[2]) : 5;
  float *x = malloc((size_t)count * sizeof *x);
  if (x == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int r = -1; r < rounds; r++) { /* the first one warms up */
    for (long i = 0; i < count; i++) x[i] = (float)(rank + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begin;
    if (x[0] != (float)(size * (size + 1) / 2) || x[count - 1] != x[0]) MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0 && r >= 0) printf("%.9f%c", seconds, r + 1 == rounds ? '\n' : ' ');
  }
  free(x);
  MPI_Finalize();
  return 0;
}
