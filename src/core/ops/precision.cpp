#include "core/ops/precision.h"

#include <atomic>

namespace tinyt {

namespace {
std::atomic<bool> g_may_round_products{false};
}

bool may_round_products() { return g_may_round_products.load(std::memory_order_relaxed); }
void allow_rounded_products(bool allowed) { g_may_round_products = allowed; }

}  // namespace tinyt
