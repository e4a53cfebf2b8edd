// Calls functions of products.

// What a convolution goes over: channels of a group, and along three dimensions the source with its
// border, the taps, the positions of the output, and the steps of both.
#ifndef TT_GEOMETRY
#define TT_GEOMETRY
typedef struct {
  int64_t channels, source[3], taps[3], positions[3], step[3], dilation[3];
} tt_geometry;
#endif

// Copies channels into the middle of others with a border of zeros.
static void tt_border_T(const T* x, int64_t channels, const int64_t* size, const int64_t* border,
                        T* y) {
  const int64_t planes = size[0] + 2 * border[0], lines = size[1] + 2 * border[1];
  const int64_t width = size[2] + 2 * border[2];
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t l = 0; l < lines; ++l, y += width) {
        const int64_t plane = p - border[0], line = l - border[1];
        for (int64_t j = 0; j < width; ++j) y[j] = 0;
        if (plane < 0 || plane >= size[0] || line < 0 || line >= size[1]) continue;
        const T* from = x + ((c * size[0] + plane) * size[1] + line) * size[2];
        T* to = y + border[2];
        for (int64_t j = 0; j < size[2]; ++j) to[j] = from[j];
      }
}

// The middle of channels with a border.
static void tt_middle_T(const T* x, int64_t channels, const int64_t* size, const int64_t* border,
                        T* y) {
  const int64_t planes = size[0] + 2 * border[0], lines = size[1] + 2 * border[1];
  const int64_t width = size[2] + 2 * border[2];
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t p = 0; p < size[0]; ++p)
      for (int64_t l = 0; l < size[1]; ++l, y += size[2]) {
        const T* from = x + ((c * planes + p + border[0]) * lines + l + border[1]) * width;
        for (int64_t j = 0; j < size[2]; ++j) y[j] = from[j + border[2]];
      }
}

// Where the first tap of positions [first, first + n) reads.
static void tt_bases(const tt_geometry* g, int64_t first, int64_t n, int64_t* base) {
  for (int64_t j = 0; j < n; ++j) {
    const int64_t position = first + j, line = position / g->positions[2];
    const int64_t c = position % g->positions[2], r = line % g->positions[1];
    const int64_t p = line / g->positions[1];
    base[j] = (p * g->step[0] * g->source[1] + r * g->step[1]) * g->source[2] + c * g->step[2];
  }
}

// How far tap `tap` of all channels is from the first one.
static int64_t tt_offset(const tt_geometry* g, int64_t tap) {
  const int64_t c = tap % g->taps[2], r = tap / g->taps[2] % g->taps[1];
  const int64_t p = tap / (g->taps[2] * g->taps[1]) % g->taps[0];
  const int64_t channel = tap / (g->taps[2] * g->taps[1] * g->taps[0]);
  return ((channel * g->source[0] + p * g->dilation[0]) * g->source[1] + r * g->dilation[1]) *
             g->source[2] +
         c * g->dilation[2];
}

// One group of one sample: y [outputs, positions] = w [outputs, taps] times what the taps read.
// Along a line the taps of neighbours are neighbours, so positions are counted as those of the
// source: a tile takes what it needs where it lies, and gives some that no output has. Taps are
// taken 128 at a time, which stay in the nearest cache for all outputs. `offset` holds a number for
// each tap, `sums` TT_COLUMNS for each output and 5 more; the source has TT_COLUMNS more elements
// behind it.
static void tt_conv_lines_T(const T* x, const T* w, T* y, int64_t outputs, const tt_geometry* g,
                            int64_t* offset, T* sums) {
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t lines = g->positions[1], width = g->positions[2], pitch = g->source[2];
  const int64_t positions = g->positions[0] * lines * width;
  for (int64_t t = 0; t < taps; ++t) offset[t] = tt_offset(g, t);
  for (int64_t plane = 0; plane < g->positions[0]; ++plane) {
    const T* from = x + plane * g->step[0] * g->source[1] * pitch;
    T* to = y + plane * lines * width;
    const int64_t end = (lines - 1) * pitch + width;
    for (int64_t first = 0; first < end; first += TT_COLUMNS_T) {
      if (first % pitch >= width && first % pitch + TT_COLUMNS_T <= pitch) continue;
      for (int64_t i = 0; i < (outputs + 5) * TT_COLUMNS_T; ++i) sums[i] = 0;
      for (int64_t t = 0; t < taps; t += 128)
        for (int64_t i = 0; i < outputs; i += 6) {
          const T* row[6];
          for (int r = 0; r < 6; ++r) row[r] = w + (i + (i + r < outputs ? r : 0)) * taps + t;
          tt_tile_T(row, 1, from + first, offset + t, taps - t < 128 ? taps - t : 128,
                    sums + i * TT_COLUMNS_T);
        }
      int64_t j = 0;
      while (j < TT_COLUMNS_T && first + j < end) {
        const int64_t line = (first + j) / pitch, column = (first + j) % pitch;
        int64_t n = width - column;
        if (n > TT_COLUMNS_T - j) n = TT_COLUMNS_T - j;
        if (n > 0)
          tt_put_T(sums + j, outputs, n, NULL, 0, 0, to + line * width + column, positions);
        j += n > 0 ? n : pitch - column;
      }
    }
  }
}

// The same with any step: a panel of positions after another, what they read copied into it.
static void tt_conv_panels_T(const T* x, const T* w, T* y, int64_t outputs, const tt_geometry* g,
                             int64_t* at, T* panel) {
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t positions = g->positions[0] * g->positions[1] * g->positions[2];
  for (int64_t t = 0; t < taps; ++t) at[t] = t * TT_COLUMNS_T;
  for (int64_t j = 0; j < positions; j += TT_COLUMNS_T) {
    const int64_t columns = positions - j < TT_COLUMNS_T ? positions - j : TT_COLUMNS_T;
    int64_t base[TT_COLUMNS_T];
    tt_bases(g, j, columns, base);
    for (int64_t p = 0; p < taps; ++p) {
      const T* from = x + tt_offset(g, p);
      T* to = panel + p * TT_COLUMNS_T;
      for (int64_t i = 0; i < columns; ++i) to[i] = from[base[i]];
      for (int64_t i = columns; i < TT_COLUMNS_T; ++i) to[i] = 0;
    }
    for (int64_t i = 0; i < outputs; i += 6) {
      const int64_t rows = outputs - i < 6 ? outputs - i : 6;
      const T* row[6];
      T sums[6 * TT_COLUMNS_T];
      for (int s = 0; s < 6 * TT_COLUMNS_T; ++s) sums[s] = 0;
      for (int r = 0; r < 6; ++r) row[r] = w + (i + (r < rows ? r : 0)) * taps;
      tt_tile_T(row, 1, panel, at, taps, sums);
      tt_put_T(sums, rows, columns, NULL, 0, 0, y + i * positions + j, positions);
    }
  }
}

// TT_COLUMNS sums of w[t] * x[offset[t] + i].
TT_FUSED static void tt_taps_T(const T* w, const T* x, const int64_t* offset, int64_t taps,
                               T* sums) {
  TT_FUSE
#if defined(__GNUC__)
  tt_register_T s0 = {0}, s1 = {0}, u, v;
  for (int64_t t = 0; t < taps; ++t) {
    memcpy(&u, x + offset[t], TT_REGISTER);
    memcpy(&v, x + offset[t] + TT_LANES_T, TT_REGISTER);
    s0 = s0 + w[t] * u;
    s1 = s1 + w[t] * v;
  }
  memcpy(sums, &s0, TT_REGISTER);
  memcpy(sums + TT_LANES_T, &s1, TT_REGISTER);
#else
  for (int i = 0; i < TT_COLUMNS_T; ++i) sums[i] = 0;
  for (int64_t t = 0; t < taps; ++t)
    for (int i = 0; i < TT_COLUMNS_T; ++i) sums[i] += w[t] * x[offset[t] + i];
#endif
}

// The same where a group has few outputs: each by itself, TT_COLUMNS positions of a line at once.
// The source has as many elements more behind it as that many steps.
static void tt_conv_few_T(const T* x, const T* w, T* y, int64_t outputs, const tt_geometry* g,
                          int64_t* offset) {
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t lines = g->positions[0] * g->positions[1], width = g->positions[2];
  const int64_t step = g->step[2];
  for (int64_t t = 0; t < taps; ++t) offset[t] = tt_offset(g, t);
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t l = 0; l < lines; ++l) {
      const int64_t p = l / g->positions[1], r = l % g->positions[1];
      const T* line = x + (p * g->step[0] * g->source[1] + r * g->step[1]) * g->source[2];
      T* to = y + (o * lines + l) * width;
      for (int64_t j = 0; j < width; j += TT_COLUMNS_T) {
        const int64_t n = width - j < TT_COLUMNS_T ? width - j : TT_COLUMNS_T;
        T sums[TT_COLUMNS_T];
        if (step == 1) {
          tt_taps_T(w + o * taps, line + j, offset, taps, sums);
        } else {
          for (int i = 0; i < TT_COLUMNS_T; ++i) sums[i] = 0;
          for (int64_t t = 0; t < taps; ++t)
            for (int i = 0; i < TT_COLUMNS_T; ++i)
              sums[i] += w[o * taps + t] * line[offset[t] + (j + i) * step];
        }
        for (int64_t i = 0; i < n; ++i) to[j + i] = sums[i];
      }
    }
}

// All samples and groups. `size` and `border` are of the source; `bordered` holds the channels of a
// group with their border and some more (tt_conv_few), `at` a number for each tap, `panel`
// TT_COLUMNS elements for each tap or output and 5 more, whichever are more.
static void tt_convolution_T(const T* x, const T* w, T* y, int64_t samples, int64_t groups,
                             int64_t outputs, const tt_geometry* g, const int64_t* size,
                             const int64_t* border, T* bordered, int64_t* at, T* panel) {
  const int64_t read = g->channels * size[0] * size[1] * size[2];
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t made = outputs * g->positions[0] * g->positions[1] * g->positions[2];
  const int64_t volume = g->channels * g->source[0] * g->source[1] * g->source[2];
  for (int i = 0; i < TT_COLUMNS_T * g->step[2]; ++i) bordered[volume + i] = 0;
  for (int64_t i = 0; i < samples * groups; ++i) {
    const T* weight = w + i % groups * outputs * taps;
    tt_border_T(x + i * read, g->channels, size, border, bordered);
    if (outputs < 4) {
      tt_conv_few_T(bordered, weight, y + i * made, outputs, g, at);
    } else if (g->step[1] == 1 && g->step[2] == 1) {
      tt_conv_lines_T(bordered, weight, y + i * made, outputs, g, at, panel);
    } else {
      tt_conv_panels_T(bordered, weight, y + i * made, outputs, g, at, panel);
    }
  }
}

// The gradient of the source: what the taps read gets w^T times the gradient of the output, a block
// of positions after another. `bordered` holds the channels of a group with their border, `columns`
// 64 positions of all taps.
static void tt_convolution_input_T(const T* dy, const T* w, T* dx, int64_t samples, int64_t groups,
                                   int64_t outputs, const tt_geometry* g, const int64_t* size,
                                   const int64_t* border, T* bordered, T* columns, T* panel) {
  const int64_t read = g->channels * size[0] * size[1] * size[2];
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t positions = g->positions[0] * g->positions[1] * g->positions[2];
  const int64_t volume = g->channels * g->source[0] * g->source[1] * g->source[2];
  for (int64_t i = 0; i < samples * groups; ++i) {
    const T* gradient = dy + i * outputs * positions;
    const T* weight = w + i % groups * outputs * taps;
    for (int64_t j = 0; j < volume; ++j) bordered[j] = 0;
    for (int64_t j = 0; j < positions; j += 64) {
      const int64_t n = positions - j < 64 ? positions - j : 64;
      int64_t base[64];
      tt_bases(g, j, n, base);
      tt_product_T(weight, 1, taps, gradient + j, positions, 1, NULL, 0, 0, columns, taps, n,
                   outputs, panel);
      for (int64_t p = 0; p < taps; ++p) {
        T* to = bordered + tt_offset(g, p);
        for (int64_t k = 0; k < n; ++k) to[base[k]] += columns[p * n + k];
      }
    }
    tt_middle_T(bordered, g->channels, size, border, dx + i * read);
  }
}

// The gradient of the weight: the gradient of the output times what the taps read, a panel of taps
// after another, samples added up in their order.
static void tt_convolution_weight_T(const T* dy, const T* x, T* dw, int64_t samples, int64_t groups,
                                    int64_t outputs, const tt_geometry* g, const int64_t* size,
                                    const int64_t* border, T* bordered, T* panel, int64_t* at) {
  const int64_t read = g->channels * size[0] * size[1] * size[2];
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t positions = g->positions[0] * g->positions[1] * g->positions[2];
  for (int64_t i = 0; i < groups * outputs * taps; ++i) dw[i] = 0;
  for (int64_t p = 0; p < positions; ++p) at[p] = p * TT_COLUMNS_T;
  for (int64_t i = 0; i < samples * groups; ++i) {
    const T* gradient = dy + i * outputs * positions;
    T* weight = dw + i % groups * outputs * taps;
    tt_border_T(x + i * read, g->channels, size, border, bordered);
    for (int64_t t = 0; t < taps; t += TT_COLUMNS_T) {
      const int64_t columns = taps - t < TT_COLUMNS_T ? taps - t : TT_COLUMNS_T;
      int64_t offset[TT_COLUMNS_T];
      for (int64_t j = 0; j < columns; ++j) offset[j] = tt_offset(g, t + j);
      for (int64_t p = 0; p < positions; ++p) {
        int64_t base;
        tt_bases(g, p, 1, &base);
        for (int64_t j = 0; j < columns; ++j)
          panel[p * TT_COLUMNS_T + j] = bordered[base + offset[j]];
        for (int64_t j = columns; j < TT_COLUMNS_T; ++j) panel[p * TT_COLUMNS_T + j] = 0;
      }
      for (int64_t o = 0; o < outputs; o += 6) {
        const int64_t rows = outputs - o < 6 ? outputs - o : 6;
        const T* row[6];
        T sums[6 * TT_COLUMNS_T];
        for (int s = 0; s < 6 * TT_COLUMNS_T; ++s) sums[s] = 0;
        for (int r = 0; r < 6; ++r) row[r] = gradient + (o + (r < rows ? r : 0)) * positions;
        tt_tile_T(row, 1, panel, at, positions, sums);
        T* to = weight + o * taps + t;
        tt_put_T(sums, rows, columns, to, taps, 1, to, taps);
      }
    }
  }
}
