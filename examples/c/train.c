/* Trains a saved step on points of a plane, labelled by whether their coordinates have one sign, and
   says how many of new points are right. No Python:

     python make_step.py
     cc -std=c99 train.c $(tinyt config --cflags --libs) -o train && ./train */
#include <stdio.h>
#include <stdlib.h>

#include "tinyt.h"

enum { POINTS = 64, STEPS = 1000 };

static void ok(tinyt_status status) {
  if (status == TINYT_SUCCESS) return;
  fprintf(stderr, "error %d: %s\n", (int)status, tinyt_error());
  exit(1);
}

/* A linear congruential generator, so that each run and each language draws the same. */
static uint32_t state = 1;
static float draw(void) {
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / (1 << 23) - 1.0f;
}

static void draw_points(float* points, int64_t* labels) {
  for (int i = 0; i < POINTS; ++i) {
    points[2 * i] = draw();
    points[2 * i + 1] = draw();
    labels[i] = points[2 * i] * points[2 * i + 1] > 0;
  }
}

int main(int argc, char** argv) {
  const char* const step_file = argc > 1 ? argv[1] : "step.tinyt";
  const char* const predict_file = argc > 2 ? argv[2] : "predict.tinyt";
  static float points[2 * POINTS];
  static int64_t labels[POINTS];
  const int64_t shape[2] = {POINTS, 2};

  /* Tensors over these arrays, which the loop fills anew. */
  tinyt_tensor *x, *y;
  ok(tinyt_tensor_wrap(TINYT_FLOAT32, 2, shape, points, NULL, NULL, &x));
  ok(tinyt_tensor_wrap(TINYT_INT64, 1, shape, labels, NULL, NULL, &y));

  tinyt_program* step;
  ok(tinyt_program_load(step_file, &step));
  printf("%s\n", tinyt_program_signature(step, 0));
  const tinyt_tensor* const batch[2] = {x, y};
  for (int i = 1; i <= STEPS; ++i) {
    draw_points(points, labels);
    tinyt_tensor* loss;
    ok(tinyt_program_run(step, batch, 2, NULL, 0, &loss, 1));
    if (i % 250 == 0) printf("step %4d, loss %.3f\n", i, *(const float*)tinyt_tensor_data(loss));
    tinyt_tensor_free(loss);
  }

  /* The weights go over to the program that predicts, by their names. */
  tinyt_program* predict;
  ok(tinyt_program_load(predict_file, &predict));
  for (int i = 0; i < tinyt_program_tensor_count(predict); ++i) {
    const char* const name = tinyt_program_tensor_name(predict, i);
    tinyt_tensor *from, *to;
    ok(tinyt_program_tensor(step, name, &from));
    ok(tinyt_program_tensor(predict, name, &to));
    ok(tinyt_tensor_assign(to, from));
    tinyt_tensor_free(from);
    tinyt_tensor_free(to);
  }
  draw_points(points, labels);
  const tinyt_tensor* const given[1] = {x};
  tinyt_tensor *found, *equal, *right;
  ok(tinyt_program_run(predict, given, 1, NULL, 0, &found, 1));

  /* Operations by name: how many labels are equal. */
  const tinyt_tensor* const both[2] = {found, y};
  ok(tinyt_call("eq", both, 2, NULL, 0, &equal, 1));
  const int64_t dims[1] = {0};
  const tinyt_attribute attributes[2] = {{"dims", 0, 0, dims, 1}, {"keepdim", 0, 0, NULL, 0}};
  const tinyt_tensor* const one[1] = {equal};
  ok(tinyt_call("sum", one, 1, attributes, 2, &right, 1));
  printf("%d of %d right\n", (int)*(const int64_t*)tinyt_tensor_data(right), POINTS);

  tinyt_tensor* const all[5] = {x, y, found, equal, right};
  for (int i = 0; i < 5; ++i) tinyt_tensor_free(all[i]);
  tinyt_program_free(step);
  tinyt_program_free(predict);
  return 0;
}
