// The bits of a value as an unsigned integer that orders as the values do: every NaN last, both
// zeros equal. `sign`: the bit of the sign, 0 of unsigned integers; `infinity`: the bits of
// infinity, 0 of integers; all bits of `flip` turn the order around.
static inline T tt_sort_key_T(T bits, T sign, T infinity, T flip) {
  if (infinity == 0) return (T)(bits ^ sign ^ flip);
  const T negative = (T)-(T)((bits & sign) != 0);
  const T nan = (T)-(T)((T)(bits & (T)~sign) > infinity);
  const T key = (T)((T)(bits ^ (T)(negative | sign)) + (T)(bits == sign));
  return (T)((T)(key | nan) ^ flip);
}

// Sorts keys and what belongs to them, equal ones in the order in which they are: short runs by
// insertion, then by merging neighbours. The result is in the arrays whose number is returned.
static int tt_sort_T(T* const* keys, int64_t* const* places, int64_t n) {
  for (int64_t first = 0; first < n; first += 16) {
    const int64_t last = n - first < 16 ? n : first + 16;
    for (int64_t i = first + 1; i < last; ++i) {
      const T key = keys[0][i];
      const int64_t place = places[0][i];
      int64_t j = i;
      for (; j > first && key < keys[0][j - 1]; --j) {
        keys[0][j] = keys[0][j - 1];
        places[0][j] = places[0][j - 1];
      }
      keys[0][j] = key;
      places[0][j] = place;
    }
  }
  int from = 0;
  for (int64_t run = 16; run < n; run *= 2, from = 1 - from) {
    const T* key = keys[from];
    const int64_t* place = places[from];
    T* to_key = keys[1 - from];
    int64_t* to_place = places[1 - from];
    for (int64_t first = 0; first < n; first += 2 * run) {
      const int64_t middle = n - first < run ? n : first + run;
      const int64_t last = n - middle < run ? n : middle + run;
      int64_t a = first, b = middle;
      for (int64_t i = first; i < last; ++i) {
        const int64_t next = b == last || (a < middle && key[a] <= key[b]) ? a++ : b++;
        to_key[i] = key[next];
        to_place[i] = place[next];
      }
    }
  }
  return from;
}

// The first `kept` elements of sorted lines of n, and where they were. `keys` and `places` have
// room for two lines.
static void tt_sort_lines_T(const T* x, T* values, int64_t* indices, int64_t lines, int64_t n,
                            int64_t kept, T* keys, int64_t* places, T sign, T infinity, T flip) {
  T* const both_keys[2] = {keys, keys + n};
  int64_t* const both_places[2] = {places, places + n};
  for (int64_t line = 0; line < lines; ++line, x += n, values += kept, indices += kept) {
    for (int64_t i = 0; i < n; ++i) keys[i] = tt_sort_key_T(x[i], sign, infinity, flip);
    for (int64_t i = 0; i < n; ++i) places[i] = i;
    const int64_t* sorted = both_places[tt_sort_T(both_keys, both_places, n)];
    for (int64_t i = 0; i < kept; ++i) {
      values[i] = x[sorted[i]];
      indices[i] = sorted[i];
    }
  }
}

// The same of few elements: each takes its place among the first ones so far, of which `keys` and
// `indices` hold those of a line.
static void tt_first_of_lines_T(const T* x, T* values, int64_t* indices, int64_t lines, int64_t n,
                                int64_t kept, T* keys, T sign, T infinity, T flip) {
  for (int64_t line = 0; line < lines; ++line, x += n, values += kept, indices += kept) {
    int64_t have = 0;
    for (int64_t i = 0; i < n; ++i) {
      const T key = tt_sort_key_T(x[i], sign, infinity, flip);
      if (have == kept && key >= keys[kept - 1]) continue;
      int64_t at = have < kept ? have++ : kept - 1;
      for (; at > 0 && key < keys[at - 1]; --at) {
        keys[at] = keys[at - 1];
        indices[at] = indices[at - 1];
      }
      keys[at] = key;
      indices[at] = i;
    }
    for (int64_t i = 0; i < kept; ++i) values[i] = x[indices[i]];
  }
}

// The key of a rank, from 0, of n keys, which it moves about.
static T tt_key_of_rank_T(T* keys, int64_t n, int64_t rank) {
  int64_t low = 0, high = n - 1;
  while (low < high) {
    const T pivot = keys[low + (high - low) / 2];
    int64_t i = low, j = high;
    while (i <= j) {
      while (keys[i] < pivot) ++i;
      while (pivot < keys[j]) --j;
      if (i <= j) {
        const T key = keys[i];
        keys[i++] = keys[j];
        keys[j--] = key;
      }
    }
    if (rank <= j) {
      high = j;
    } else if (rank >= i) {
      low = i;
    } else {
      break;
    }
  }
  return keys[rank];
}

// The element of a rank in each line's order, and where it is; of rank -1 the median, the lower one
// of two, which is a NaN if there is one that is not ignored. `keys` has room for a line.
static void tt_select_T(const T* x, T* values, int64_t* indices, int64_t lines, int64_t n,
                        int64_t rank, int ignore_nan, T* keys, T sign, T infinity) {
  for (int64_t line = 0; line < lines; ++line, x += n) {
    int64_t numbers = n;
    for (int64_t i = 0; i < n; ++i) {
      keys[i] = tt_sort_key_T(x[i], sign, infinity, 0);
      numbers -= infinity != 0 && keys[i] == (T)~(T)0;
    }
    int64_t wanted = rank;
    if (rank < 0) {
      const int is_number = numbers == n || (ignore_nan && numbers > 0);
      wanted = is_number ? (numbers - 1) / 2 : numbers;
    }
    const T key = tt_key_of_rank_T(keys, n, wanted);
    for (int64_t i = 0; i < n; ++i) wanted -= keys[i] < key;
    int64_t at = 0;
    while (tt_sort_key_T(x[at], sign, infinity, 0) != key || wanted-- > 0) ++at;
    values[line] = x[at];
    indices[line] = at;
  }
}
