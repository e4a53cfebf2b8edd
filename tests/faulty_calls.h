// Counts of calls and rules for those that fail, of the libraries for tests that stand for a
// driver's: C and C++. They define kNames, an array of the driver's functions, before they include
// this, which exports faulty_fail, faulty_reset and faulty_calls.
//
// Environment, read when the library is opened:
//   FAULTY_FAIL   "function:nth:times:status", several apart by spaces (faulty_fail)
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#define EXPORT extern "C" __attribute__((visibility("default")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { kMostRules = 32, kFunctions = sizeof kNames / sizeof kNames[0] };

// The nth call from now on fails, and so do those after it, `times` in all (below 0: for ever).
struct Rule {
  int function;
  long nth, times;
  int status;
};

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;  // of all that follows
static struct Rule g_rules[kMostRules];
static int g_rule_count;
static long g_calls[kFunctions];

static int number_of(const char* name, size_t length) {
  for (int i = 0; i < kFunctions; ++i)
    if (strlen(kNames[i]) == length && strncmp(kNames[i], name, length) == 0) return i;
  fprintf(stderr, "faulty: no function %s\n", name);
  abort();
}

EXPORT void faulty_fail(const char* function, long nth, long times, int status) {
  pthread_mutex_lock(&g_mutex);
  if (g_rule_count == kMostRules) abort();
  const struct Rule rule = {number_of(function, strlen(function)), nth, times, status};
  g_rules[g_rule_count++] = rule;
  pthread_mutex_unlock(&g_mutex);
}

// No call fails any more.
EXPORT void faulty_reset(void) {
  pthread_mutex_lock(&g_mutex);
  g_rule_count = 0;
  pthread_mutex_unlock(&g_mutex);
}

// How often it was called so far, failures included.
EXPORT long faulty_calls(const char* function) {
  pthread_mutex_lock(&g_mutex);
  const long calls = g_calls[number_of(function, strlen(function))];
  pthread_mutex_unlock(&g_mutex);
  return calls;
}

__attribute__((constructor)) static void read_rules(void) {
  const char* text = getenv("FAULTY_FAIL");
  while (text && *text) {
    const size_t length = strcspn(text, ":");
    struct Rule rule = {number_of(text, length), 0, 0, 0};
    int read = 0;
    if (sscanf(text + length, ":%ld:%ld:%d%n", &rule.nth, &rule.times, &rule.status, &read) != 3)
      abort();
    g_rules[g_rule_count++] = rule;
    text += length + (size_t)read;
    text += strspn(text, " ");
  }
}

// Counts a call; its status where it is to fail, else 0.
static int counted(int function) {
  int status = 0;
  pthread_mutex_lock(&g_mutex);
  ++g_calls[function];
  for (int i = 0; i < g_rule_count; ++i) {
    struct Rule* const rule = &g_rules[i];
    if (rule->function != function || rule->times == 0) continue;
    if (rule->nth > 1) {
      --rule->nth;
      continue;
    }
    if (rule->times > 0) --rule->times;
    if (status == 0) status = rule->status;
  }
  pthread_mutex_unlock(&g_mutex);
  return status;
}
