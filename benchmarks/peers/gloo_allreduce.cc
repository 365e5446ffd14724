// benchmarks/peers/gloo_allreduce.cc - seconds of Gloo's all-reduce, for benchmarks/compare_collectives.
//
// Usage: gloo_allreduce RANK SIZE FOLDER COUNT ROUNDS, once per rank; FOLDER is where the ranks find each other. Rank 0
// prints one line: the seconds of each round, in place, over floats; before each round there is a barrier. Sums are
// checked. The algorithm is Gloo's own choice for large data, its ring.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

int main(int argc, char **argv) {
  if (argc < 6) return 1;
  const int rank = atoi(argv[1]), size = atoi(argv[2]), rounds = atoi(argv[5]);
  const size_t count = static_cast<size_t>(atol(argv[4]));
  gloo::transport::tcp::attr attr("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(argv[3]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  std::vector<float> x(count);
  for (int r = -1; r < rounds; r++) {  // the first one warms up
    for (auto &v : x) v = static_cast<float>(rank + 1);
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    const auto begin = std::chrono::steady_clock::now();
    gloo::AllreduceOptions options(context);
    options.setOutput(x.data(), count);
    options.setReduceFunction([](void *a, const void *b, const void *c, size_t n) { gloo::sum<float>(a, b, c, n); });
    gloo::allreduce(options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (x[0] != static_cast<float>(size * (size + 1) / 2) || x[count - 1] != x[0]) return 2;
    if (rank == 0 && r >= 0) std::printf("%.9f%c", seconds, r + 1 == rounds ? '\n' : ' ');
  }
  return 0;
}
