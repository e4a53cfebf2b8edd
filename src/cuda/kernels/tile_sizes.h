// Sizes of tiles that kernels and what launches them share. Read by the host's compiler and by
// NVRTC.
#pragma once

constexpr int kStripBytes = 64;       // of a line
constexpr int kProductThreads = 256;  // of a block whose threads multiply single numbers
