// Captured graphs: what a thread asks of a device between a beginning and an end, launched again
// and again on the same memory.
#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "cuda/current.h"

namespace tinyt::cuda {

class CudaDriver::CapturedGraph final : public DeviceGraph {
 public:
  CapturedGraph(CudaDriver& driver, int index) : driver_(driver), index_(index) {}
  ~CapturedGraph() override { reset(); }

  void begin_capture(uint64_t pool) override {
    CudaDevice& on = driver_.device(index_);
    require(pool_ == 0, ErrorKind::Runtime, "CUDAGraph: it holds a capture already");
    faults_ = reinterpret_cast<Address>(driver_.faults(index_).handle);  // zeros before it begins
    {
      const Current current(driver_.api_, on);
      on.work->send();
      on.work->begin_capture();
    }
    pool_ = pool;
    is_open_ = true;
    try {
      cache().use_pool(pool);
    } catch (...) {
      on.work->abandon_capture();
      pool_ = 0;
      is_open_ = false;
      throw;
    }
    cache().begin_pool(pool);
  }

  void end_capture(std::span<const WordRange> ranges) override {
    require(is_open_, ErrorKind::Runtime, "CUDAGraph: capture_begin() comes before capture_end()");
    CudaDevice& on = driver_.device(index_);
    captured_ = take_captured(on);
    places_.clear();
    for (const auto& [first, count] : ranges) {
      std::vector<Place> found;
      for (const size_t word : captured_.words_in(first, count))
        found.push_back({word, captured_.word(word) - first});
      if (found.empty()) {
        captured_.clear();
        fail(
            ErrorKind::Runtime,
            "CUDAGraph: no kernel of the capture takes a number that was drawn for it; draw on the "
            "device that is captured");
      }
      places_.push_back(std::move(found));
    }
    has_faults_ = captured_.has_address(faults_);
  }

  void instantiate() override {
    require_captured();
    CudaDevice& on = driver_.device(index_);
    const Current current(driver_.api_, on);
    on.work->send();
    graph_ = nullptr;
    if (captured_.size() == 0) return;
    auto made = std::make_unique<InstantiatedGraph>(driver_.api_, on.context);
    const Status status = made->instantiate(captured_);
    check(driver_.api_, status, made->last_call());
    graph_ = std::move(made);
  }

  void launch(std::span<const int64_t> values) override {
    require_captured();
    require(values.size() == places_.size(), ErrorKind::Value, "CUDAGraph: expected ",
            places_.size(), " values, got ", values.size());
    if (captured_.size() == 0) return;
    if (graph_ == nullptr) instantiate();
    if (has_faults_) driver_.expect_faults(index_);
    for (size_t i = 0; i < values.size(); ++i)
      for (const Place& place : places_[i]) captured_.word(place.word) = values[i] + place.after;
    // A list of its own goes to the graph, which takes it.
    WorkList next = values.empty() ? WorkList{} : captured_;
    driver_.enqueue(index_, "cuGraphLaunch", [&](Stream stream) {
      return values.empty() ? graph_->launch_again(stream) : graph_->launch(next, stream);
    });
  }

  void reset() noexcept override {
    if (driver_.is_own_process()) {
      try {
        CudaDevice& on = driver_.device(index_);
        if (std::exchange(is_open_, false)) close(on);
        const Current current(driver_.api_, on);
        graph_ = nullptr;
      } catch (const Error&) {  // a lost device
      }
      if (pool_ != 0) cache().leave_pool(std::exchange(pool_, 0));
    }
    if (graph_ != nullptr) graph_->forget();
    graph_ = nullptr;
    captured_.clear();
    places_.clear();
  }

  size_t size() const override { return captured_.size(); }
  void* handle() const override { return graph_ == nullptr ? nullptr : graph_->handle(); }
  void* instantiated_handle() const override {
    return graph_ == nullptr ? nullptr : graph_->instantiated_handle();
  }

  std::string description() const override {
    std::ostringstream text;
    text << "digraph {\n  node [shape=box];\n";
    for (size_t i = 0; i < captured_.size(); ++i) {
      const WorkList::Item& item = captured_[i];
      text << "  node" << i << " [label=\"";
      if (item.kind == WorkList::Kind::Kernel)
        text << "kernel, " << item.shape.blocks << " blocks of " << item.shape.threads
             << " threads";
      else
        text << (item.kind == WorkList::Kind::Copy ? "copy, " : "fill, ") << item.bytes << " bytes";
      text << "\"];\n";
      if (i > 0) text << "  node" << i - 1 << " -> node" << i << ";\n";
    }
    text << "}\n";
    return text.str();
  }

 private:
  // A word of the list, and how far it is from the first number of its range.
  struct Place {
    size_t word;
    int64_t after;
  };

  memory::DeviceCache& cache() const { return memory::cache_of(driver_.device_at(index_)); }

  void require_captured() const {
    require(pool_ != 0 && !is_open_, ErrorKind::Runtime,
            "Called CUDAGraph::replay without a preceding successful capture.");
  }

  void close(CudaDevice& on) noexcept {
    cache().end_pool();
    on.work->abandon_capture();
  }

  WorkList take_captured(CudaDevice& on) {
    require(on.work->is_capturing(), ErrorKind::Runtime,
            "CUDAGraph: a capture ends in the thread in which it began");
    is_open_ = false;
    cache().end_pool();
    return on.work->end_capture();
  }

  CudaDriver& driver_;
  const int index_;
  uint64_t pool_ = 0;  // 0: nothing is captured
  bool is_open_ = false;
  bool has_faults_ = false;  // whether a kernel of it may find an index out of range
  Address faults_ = 0;
  WorkList captured_;
  std::vector<std::vector<Place>> places_;  // of each range
  std::unique_ptr<InstantiatedGraph> graph_;
};

std::unique_ptr<DeviceGraph> CudaDriver::new_graph(int index) {
  require_own_process();
  require(!is_hip(), ErrorKind::NotImplemented, "CUDAGraph: AMD's devices have no graphs here");
  return std::make_unique<CapturedGraph>(*this, index);
}

bool CudaDriver::is_capturing(int index) {
  if (!is_own_process()) return false;
  const CudaDevice& on = devices_[static_cast<size_t>(index)];
  const std::lock_guard<std::mutex> lock(mutex_);
  return on.work != nullptr && on.work->is_capturing();
}

}  // namespace tinyt::cuda
