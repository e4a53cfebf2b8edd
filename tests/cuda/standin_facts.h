// Functions of the stand-in's driver that say something of devices and of time: part of
// standin.cpp.
#pragma once

EXPORT Status cuDeviceGetUuid_v2(Uuid* uuid, DeviceId device) {
  COUNTED(cuDeviceGetUuid);
  RETURN_IF_FAILED(check_device(device));
  if (uuid == nullptr) return kInvalidValue;
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(16 * i + device);
  return kSuccess;
}

EXPORT Status cuDeviceCanAccessPeer(int* can, DeviceId device, DeviceId peer) {
  COUNTED(cuDeviceCanAccessPeer);
  RETURN_IF_FAILED(check_device(device));
  RETURN_IF_FAILED(check_device(peer));
  if (can == nullptr) return kInvalidValue;
  *can = device != peer;
  return kSuccess;
}

EXPORT Status cuMemGetInfo_v2(size_t* free_bytes, size_t* bytes) {
  IN_CONTEXT(cuMemGetInfo);
  if (free_bytes == nullptr || bytes == nullptr) return kInvalidValue;
  const std::lock_guard lock(driver().mutex);
  *bytes = total_memory();
  *free_bytes = *bytes - g_current->allocated;
  return kSuccess;
}

EXPORT Status cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  IN_CONTEXT(cuEventElapsedTime);
  RETURN_IF_FAILED(check_handle(from));
  RETURN_IF_FAILED(check_handle(to));
  if (milliseconds == nullptr) return kInvalidValue;
  const EventTag first = read_event(from), last = read_event(to);
  for (const EventTag& at : {first, last}) {
    if (!at.has_times || at.stream == nullptr || at.context != first.context) return kInvalidHandle;
    if (!at.stream->is_done(at.ticket)) return kNotReady;
  }
  *milliseconds = static_cast<float>(*last.time - *first.time);
  return kSuccess;
}
