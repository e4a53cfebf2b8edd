// What kernels/matmul.cu is told of a product: [batch, rows, sums] times [batch, sums, columns], in
// elements. Read by the host's compiler and by NVRTC.
#pragma once

struct MatmulArguments {
  long long rows, columns, sums, sums_of_part;  // some parts of the sums are made side by side
  long long down, across, batches;              // tiles, and how many matrices
  long long a_first, a_row, a_sum, b_first, b_sum, b_column;
  long long batch[3], a_batch[3], b_batch[3];  // sizes, and strides; 0 repeats
  // The result is dense, [part, batch, rows, columns]. The addend, if there is one.
  long long out_first, addend_first, addend_row, addend_column, addend_batch[3];
  long long packs;  // whether four columns of the result may be written at once
};
