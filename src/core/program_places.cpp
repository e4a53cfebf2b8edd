// Where a program's operands lie, and how much a run holds at each step.
#include <algorithm>

#include "program.h"

namespace tinyt {

Program::Layout Program::layout() const {
  using Kind = Place::Kind;
  Layout out;
  const auto add = [&](const Storage* storage, Place place) {
    if (out.place_of.emplace(storage, out.places.size()).second) out.places.push_back(place);
  };
  for (const auto& [storage, offset] : placed_)
    add(storage.get(), {Kind::Arena, storage->block.bytes, static_cast<int64_t>(offset)});
  for (size_t i = 0; i < memories_.size(); ++i)
    add(memories_[i].storage.get(), {Kind::Result, memories_[i].bytes, static_cast<int64_t>(i)});
  for (const Turn& turn : taken_) add(turn.memory.storage.get(), {Kind::Block, turn.memory.bytes});
  for (size_t i = 0; i < arguments_.size(); ++i)
    add(arguments_[i].storage.get(),
        {Kind::Argument, arguments_[i].storage->block.bytes, static_cast<int64_t>(i)});
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    for (int64_t i = step.first; i < step.first + step.inputs + step.outputs; ++i) {
      const Storage* storage = &operands_[i].storage();
      add(storage, {Kind::Outside, storage->block.bytes});
      Place& place = out.places[out.place_of.at(storage)];
      if (place.first < 0) place.first = static_cast<int64_t>(s);
      place.last = static_cast<int64_t>(s);
    }
  }
  for (const Turn& turn : taken_)
    out.places[out.place_of.at(turn.memory.storage.get())].first = turn.step;
  for (Place& place : out.places)
    if (place.kind == Kind::Result) place.last = static_cast<int64_t>(steps_.size()) - 1;
  return out;
}

std::vector<size_t> Program::held_bytes() const {
  std::vector<size_t> out;
  size_t held = arena_bytes_;
  auto taken = taken_.begin(), given = given_back_.begin();
  for (int64_t s = 0; s < static_cast<int64_t>(steps_.size()); ++s) {
    for (; taken != taken_.end() && taken->step == s; ++taken) held += taken->memory.bytes;
    out.push_back(held);
    for (; given != given_back_.end() && given->step == s; ++given) held -= given->memory.bytes;
  }
  return out;
}

size_t Program::peak_bytes() const {
  const std::vector<size_t> held = held_bytes();
  return held.empty() ? 0 : *std::max_element(held.begin(), held.end());
}

}  // namespace tinyt
