// What kernels/convolution.cu is told: a product of which an operand, or both, are read from where
// windows of images are. Read by the host's compiler and by NVRTC. All places fit in 31 bits.
#pragma once

// A number by four digits, the last one counted fastest: a place along each of three dimensions,
// and another number, of images or of channels.
struct Digits {
  int size[4];
};

// An operand whose lines and sums are places of results and taps of a kernel, or the reverse. The
// other number is the first digit of places and the last one of taps.
struct Windows {
  Digits lines, sums;
  int line_step[3], sum_step[3];  // of a place that is read, for each digit
  int first[3], inside[3];        // where it begins, and the sizes of what is read
  int stride[3];                  // of these dimensions in memory, in elements
  int line_other, sum_other;      // and of the other numbers
};

struct ConvolutionArguments {
  long long rows, columns, sums, sums_of_part;
  long long down, across, groups;         // tiles
  long long a_first, b_first, out_first;  // in elements, as all steps are
  long long a_group, b_group, out_group;
  long long a_line, a_sum;  // where `a` is a matrix
  long long out_part, out_row, out_step[4];
  long long packs;  // whether four columns of the result may be written at once
  Digits out_columns;
  int out_last;  // of the last digit: columns beyond it are not stored
  Windows a, b;
};
