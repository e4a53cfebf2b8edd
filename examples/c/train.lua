-- The training of train.c in LuaJIT, whose FFI reads the C interface:
--
--   python make_step.py
--   luajit train.lua "$(tinyt config --library)" "$(tinyt config --header)"
local ffi = require("ffi")
local POINTS, STEPS = 64, 1000

-- The declarations of tinyt.h: what stands between its `extern "C"` lines.
local file = assert(io.open(assert(arg[2], "the path of tinyt.h"), "r"))
local header = file:read("*a")
file:close()
header = header:match('extern "C" {\n#endif\n(.-)#ifdef __cplusplus\n}')
ffi.cdef((header:gsub("#define[^\n]*\n", "")))
local C = ffi.load(assert(arg[1], "the path of the library"))

local function ok(status)
  if status ~= 0 then
    error(("error %d: %s"):format(tonumber(status), ffi.string(C.tinyt_error())))
  end
end

-- A handle that the garbage collector frees.
local function tensor(make)
  local out = ffi.new("tinyt_tensor*[1]")
  ok(make(out))
  return ffi.gc(out[0], C.tinyt_tensor_free)
end

local function load(path)
  local out = ffi.new("tinyt_program*[1]")
  ok(C.tinyt_program_load(path, out))
  return ffi.gc(out[0], C.tinyt_program_free)
end

local function run(program, ...)
  local given = ffi.new("const tinyt_tensor*[?]", select("#", ...), ...)
  local count = select("#", ...)
  return tensor(function(out) return C.tinyt_program_run(program, given, count, nil, 0, out, 1) end)
end

local state = ffi.new("uint32_t[1]", 1)
local function draw()
  state[0] = (1664525ULL * state[0] + 1013904223ULL) % 4294967296ULL
  return tonumber(bit.rshift(state[0], 8)) / 8388608 - 1
end

local points, labels = ffi.new("float[?]", 2 * POINTS), ffi.new("int64_t[?]", POINTS)
local function draw_points()
  for i = 0, POINTS - 1 do
    points[2 * i], points[2 * i + 1] = draw(), draw()
    labels[i] = points[2 * i] * points[2 * i + 1] > 0 and 1 or 0
  end
end

local shape = ffi.new("int64_t[2]", POINTS, 2)
local x = tensor(function(out)
  return C.tinyt_tensor_wrap(C.TINYT_FLOAT32, 2, shape, points, nil, nil, out)
end)
local y = tensor(function(out)
  return C.tinyt_tensor_wrap(C.TINYT_INT64, 1, shape, labels, nil, nil, out)
end)

local step = load(arg[3] or "step.tinyt")
print(ffi.string(C.tinyt_program_signature(step, 0)))
for i = 1, STEPS do
  draw_points()
  local loss = run(step, x, y)
  if i % 250 == 0 then
    local value = ffi.cast("const float*", C.tinyt_tensor_data(loss))[0]
    print(("step %4d, loss %.3f"):format(i, value))
  end
end

local predict = load(arg[4] or "predict.tinyt")
for i = 0, C.tinyt_program_tensor_count(predict) - 1 do
  local name = C.tinyt_program_tensor_name(predict, i)
  local from = tensor(function(out) return C.tinyt_program_tensor(step, name, out) end)
  local to = tensor(function(out) return C.tinyt_program_tensor(predict, name, out) end)
  ok(C.tinyt_tensor_assign(to, from))
end
draw_points()
local found = run(predict, x)
local right = 0
local values = ffi.cast("const int64_t*", C.tinyt_tensor_data(found))
for i = 0, POINTS - 1 do
  if values[i] == labels[i] then right = right + 1 end
end
print(("%d of %d right"):format(right, POINTS))
