// Collectives between CPU ranks: libtorch's Gloo group over its TCP store.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "guard.h"

namespace sead {

struct Store {
  c10::intrusive_ptr<c10d::TCPStore> p;
};
struct Comm {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> p;
};

static c10d::ProcessGroupGloo& group(sn_comm c) {
  TORCH_CHECK_VALUE(c, "the group is closed");
  return *static_cast<Comm*>(c)->p;
}

// Gloo reports a dead peer or a passed deadline as a plain runtime_error: give it its own kind.
template <typename F>
static void dist(F f) {
  try {
    f();
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& e) {
    C10_THROW_ERROR(DistBackendError, e.what());
  }
}

template <typename F>
static void collective(F f) {
  dist([&] { f()->wait(); });
}

static at::Tensor ready(const at::Tensor& t) {
  TORCH_CHECK(t.is_contiguous(), "collective: tensor ", t.sizes(), " is not contiguous");
  return t.detach();
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_store_open(const char* host, int port, int is_server, int world, int64_t timeout_ms, void** store, int* bound_port) {
  GUARD({
    c10d::TCPStoreOptions o;
    o.port = static_cast<uint16_t>(port);
    o.isServer = is_server != 0;
    o.numWorkers = world;
    o.waitWorkers = false;
    o.timeout = std::chrono::milliseconds(timeout_ms);
    auto s = c10::make_intrusive<c10d::TCPStore>(host, o);
    *bound_port = s->getPort();
    *store = new Store{std::move(s)};
  })
}
void sn_store_close(void* store) { delete static_cast<Store*>(store); }

sn_status sn_gloo_open(void* store, const char* name, int rank, int size, int64_t timeout_ms, sn_comm* out) {
  GUARD(dist([&] {
    auto o = c10d::ProcessGroupGloo::Options::create(std::chrono::milliseconds(timeout_ms));
    o->threads = 1;
    o->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    TORCH_CHECK_VALUE(store, "the store is closed");
    auto prefix = c10::make_intrusive<c10d::PrefixStore>(name, static_cast<Store*>(store)->p);
    *out = new Comm{c10::make_intrusive<c10d::ProcessGroupGloo>(prefix, rank, size, o)};
  }))
}
void sn_comm_close(sn_comm c) { delete static_cast<Comm*>(c); }

sn_status sn_all_reduce_(sn_comm c, sn_tensor t, int op) {
  GUARD({
    std::vector<at::Tensor> v{ready(T(t))};
    c10d::AllreduceOptions o;
    o.reduceOp = op == 1 ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    collective([&] { return group(c).allreduce(v, o); });
  })
}
sn_status sn_all_gather(sn_comm c, sn_tensor t, int size, sn_tensor* out) {
  GUARD({
    auto in = ready(T(t));
    auto shape = in.sizes().vec();
    shape.insert(shape.begin(), size);
    auto all = at::empty(shape, in.options());
    // Flat: Gloo cuts the output along its first dimension and wants parts of the input's own shape.
    auto flat_in = in.view({-1}), flat_all = all.view({-1});
    collective([&] { return group(c)._allgather_base(flat_all, flat_in); });
    *out = give(std::move(all));
  })
}
sn_status sn_reduce_scatter(sn_comm c, sn_tensor t, int size, sn_tensor* out) {
  GUARD({
    auto in = ready(T(t));
    auto shape = in.sizes().vec();
    TORCH_CHECK(!shape.empty() && shape[0] % size == 0, "reduce_scatter: ", in.sizes(), " does not divide by ", size);
    shape[0] /= size;
    auto part = at::empty(shape, in.options());
    collective([&] { return group(c)._reduce_scatter_base(part, in); });
    *out = give(std::move(part));
  })
}
sn_status sn_broadcast_(sn_comm c, sn_tensor t, int root) {
  GUARD({
    std::vector<at::Tensor> v{ready(T(t))};
    c10d::BroadcastOptions o;
    o.rootRank = root;
    collective([&] { return group(c).broadcast(v, o); });
  })
}
sn_status sn_barrier(sn_comm c) {
  GUARD(collective([&] { return group(c).barrier(); }))
}

}  // extern "C"
