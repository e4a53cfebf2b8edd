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

// One group of one sample: y [outputs, positions] = w [outputs, taps] times what the taps read, a
// panel of positions after another.
static void tt_conv_group_T(const T* x, const T* w, T* y, int64_t outputs, const tt_geometry* g,
                            T* panel) {
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t positions = g->positions[0] * g->positions[1] * g->positions[2];
  for (int64_t j = 0; j < positions; j += TT_COLUMNS_T) {
    const int64_t columns = positions - j < TT_COLUMNS_T ? positions - j : TT_COLUMNS_T;
    int64_t base[TT_COLUMNS_T];
    tt_bases(g, j, columns, base);
    const int dense = columns == TT_COLUMNS_T && g->step[2] == 1 &&
                      base[TT_COLUMNS_T - 1] == base[0] + TT_COLUMNS_T - 1;
    for (int64_t p = 0; p < taps; ++p) {
      const T* from = x + tt_offset(g, p);
      T* to = panel + p * TT_COLUMNS_T;
      if (dense) {
        from += base[0];
        for (int i = 0; i < TT_COLUMNS_T; ++i) to[i] = from[i];
      } else {
        for (int64_t i = 0; i < columns; ++i) to[i] = from[base[i]];
        for (int64_t i = columns; i < TT_COLUMNS_T; ++i) to[i] = 0;
      }
    }
    for (int64_t i = 0; i < outputs; i += 6) {
      const int64_t rows = outputs - i < 6 ? outputs - i : 6;
      const T* row[6];
      T sums[6 * TT_COLUMNS_T];
      for (int s = 0; s < 6 * TT_COLUMNS_T; ++s) sums[s] = 0;
      for (int r = 0; r < 6; ++r) row[r] = w + (i + (r < rows ? r : 0)) * taps;
      tt_tile_T(row, 1, panel, TT_COLUMNS_T, taps, sums);
      tt_put_T(sums, rows, columns, NULL, 0, 0, y + i * positions + j, positions);
    }
  }
}

// The same where a group has few outputs: one tap after another, along lines.
static void tt_conv_few_T(const T* x, const T* w, T* y, int64_t outputs, const tt_geometry* g,
                          T* panel) {
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t lines = g->positions[0] * g->positions[1], width = g->positions[2];
  const int64_t step = g->step[2];
  (void)panel;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t l = 0; l < lines; ++l) {
      const int64_t p = l / g->positions[1], r = l % g->positions[1];
      const T* line = x + (p * g->step[0] * g->source[1] + r * g->step[1]) * g->source[2];
      T* restrict to = y + (o * lines + l) * width;
      for (int64_t j = 0; j < width; ++j) to[j] = 0;
      for (int64_t t = 0; t < taps; ++t) {
        const T* restrict from = line + tt_offset(g, t);
        const T factor = w[o * taps + t];
        if (step == 1) {
          for (int64_t j = 0; j < width; ++j) to[j] += factor * from[j];
        } else {
          for (int64_t j = 0; j < width; ++j) to[j] += factor * from[j * step];
        }
      }
    }
}

// All samples and groups. `size` and `border` are of the source; `bordered` holds the channels of a
// group with their border, where there is one.
static void tt_convolution_T(const T* x, const T* w, T* y, int64_t samples, int64_t groups,
                             int64_t outputs, const tt_geometry* g, const int64_t* size,
                             const int64_t* border, T* bordered, T* panel) {
  const int64_t read = g->channels * size[0] * size[1] * size[2];
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t made = outputs * g->positions[0] * g->positions[1] * g->positions[2];
  const int has_border = border[0] + border[1] + border[2] > 0;
  for (int64_t i = 0; i < samples * groups; ++i) {
    const T* source = x + i * read;
    const T* weight = w + i % groups * outputs * taps;
    if (has_border) tt_border_T(source, g->channels, size, border, bordered);
    if (outputs < 4) {
      tt_conv_few_T(has_border ? bordered : source, weight, y + i * made, outputs, g, panel);
    } else {
      tt_conv_group_T(has_border ? bordered : source, weight, y + i * made, outputs, g, panel);
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
                                    const int64_t* border, T* bordered, T* panel) {
  const int64_t read = g->channels * size[0] * size[1] * size[2];
  const int64_t taps = g->channels * g->taps[0] * g->taps[1] * g->taps[2];
  const int64_t positions = g->positions[0] * g->positions[1] * g->positions[2];
  for (int64_t i = 0; i < groups * outputs * taps; ++i) dw[i] = 0;
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
        tt_tile_T(row, 1, panel, TT_COLUMNS_T, positions, sums);
        T* to = weight + o * taps + t;
        tt_put_T(sums, rows, columns, to, taps, 1, to, taps);
      }
    }
  }
}
