// Compiled kernels on disk: what is found again, and what is never believed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "gpu/kernel_cache.h"
#include "gpu/sha256.h"

using namespace tinyt;
using namespace tinyt::gpu;

namespace {

namespace fs = std::filesystem;

// A folder that goes with it.
struct Folder {
  std::string path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "kernels-XXXXXX").string();
    path = ::mkdtemp(name.data()) + std::string("/a/b");
  }
  ~Folder() { fs::remove_all(fs::path(path).parent_path().parent_path()); }
};

std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  return found;
}

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void replace(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void test_sha256() {
  const auto of = [](std::string_view x) { return to_hex(Sha256().add(x).finish()); };
  CHECK_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  Sha256 many;
  for (int i = 0; i < 10000; ++i) many.add(std::string(100, 'a'));
  CHECK_EQ(to_hex(many.finish()),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

void test_keys() {
  const std::string key = kernel_key({{"a", "x"}, {"b", "y"}});
  CHECK(key != kernel_key({{"a", "x"}, {"b", "z"}}));
  CHECK(key != kernel_key({{"a", "x\nb 1\ny"}}));
  CHECK(kernel_key({{"a", "xy"}, {"b", ""}}) != kernel_key({{"a", "x"}, {"b", "y"}}));
}

void test_found_again() {
  const Folder folder;
  KernelCache cache(folder.path, 1 << 20);
  CHECK(!cache.find("key"));
  const std::string binary("\0binary\n", 8);
  cache.keep("key", binary);
  cache.keep("other", "its own");
  CHECK(KernelCache(folder.path, 1 << 20).find("key") == binary);
  cache.keep("key", "another");
  CHECK(cache.find("key") == "another");
  CHECK(cache.find("other") == "its own");
  CHECK(!cache.find("keys"));
  CHECK_EQ(files_in(folder.path).size(), 2u);
  struct stat facts;
  CHECK_EQ(::stat(folder.path.c_str(), &facts), 0);
  CHECK_EQ(facts.st_mode & 0777, 0700u);
  CHECK_EQ(::stat(files_in(folder.path)[0].c_str(), &facts), 0);
  CHECK_EQ(facts.st_mode & 0777, 0600u);
  cache.keep("empty", "");
  CHECK(!cache.find("empty"));
}

void test_damaged_files() {
  const Folder folder;
  KernelCache cache(folder.path, 1 << 20);
  cache.keep("key", "a binary");
  const fs::path path = files_in(folder.path)[0];
  const std::string whole = content_of(path);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1 << i % 8);
    replace(path, changed);
    CHECK(!cache.find("key"));
    replace(path, whole.substr(0, i));
    CHECK(!cache.find("key"));
  }
  replace(path, whole + "more");
  CHECK(!cache.find("key"));
  replace(path, whole);
  CHECK(cache.find("key") == "a binary");
  // The file of another key under this one's name.
  cache.keep("other", "its own");
  for (const fs::path& other : files_in(folder.path))
    if (other != path) fs::copy_file(other, path, fs::copy_options::overwrite_existing);
  CHECK(!cache.find("key"));
  cache.keep("key", "again");
  CHECK(cache.find("key") == "again");
}

void test_what_others_may_write() {
  const Folder folder;
  KernelCache cache(folder.path, 1 << 20);
  cache.keep("key", "a binary");
  const fs::path path = files_in(folder.path)[0];
  ::chmod(path.c_str(), 0620);
  CHECK(!cache.find("key"));
  ::chmod(path.c_str(), 0600);
  CHECK(cache.find("key").has_value());
  fs::rename(path, folder.path + "/moved");
  fs::create_symlink(folder.path + "/moved", path);
  CHECK(!cache.find("key"));
  fs::remove(path);
  fs::rename(folder.path + "/moved", path);
  ::chmod(folder.path.c_str(), 0777);
  CHECK(!cache.find("key"));
  CHECK_EQ(cache.refusal(), "others may write to it");
  cache.keep("other", "its own");
  CHECK_EQ(files_in(folder.path).size(), 1u);
  ::chmod(folder.path.c_str(), 0700);
  CHECK(cache.find("key").has_value());
}

void test_nothing_fails() {
  const Folder folder;
  KernelCache none("", 1 << 20);
  none.keep("key", "a binary");
  CHECK(!none.find("key"));
  CHECK(!none.refusal().empty());
  fs::create_directories(folder.path);
  replace(folder.path + "/file", "x");
  for (const char* below : {"/file", "/file/below"}) {
    KernelCache cache(folder.path + below, 1 << 20);
    cache.keep("key", "a binary");
    CHECK(!cache.find("key"));
    CHECK(!cache.refusal().empty());
  }
  KernelCache small(folder.path + "/small", 100);
  small.keep("key", std::string(200, 'x'));
  CHECK(!small.find("key"));
  KernelCache gone(folder.path + "/gone", 1 << 20);
  gone.keep("key", "a binary");
  fs::remove_all(folder.path + "/gone");
  CHECK(!gone.find("key"));
  gone.keep("key", "a binary");
  CHECK(gone.find("key").has_value());
}

void test_room() {
  const Folder folder;
  constexpr uint64_t kMost = 10000;
  const auto key = [](int i) { return "key " + std::to_string(i); };
  const auto bytes = [&] {
    uint64_t all = 0;
    for (const fs::path& path : files_in(folder.path)) all += fs::file_size(path);
    return all;
  };
  fs::create_directories(folder.path);
  ::chmod(folder.path.c_str(), 0700);
  replace(folder.path + "/unrelated", std::string(50, 'x'));
  const std::string left = folder.path + "/.unfinished-abc", fresh = left + "d";
  replace(left, "x");
  replace(fresh, "x");
  const timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
  ::utimensat(AT_FDCWD, left.c_str(), old, 0);
  for (int process = 0; process < 4; ++process) {
    KernelCache cache(folder.path, kMost);
    for (int i = 0; i < 10; ++i) {
      cache.keep(key(10 * process + i), std::string(700, 'x'));
      // Older than all that follow, however coarse the system's clock is.
      for (const fs::path& path : files_in(folder.path)) {
        struct stat facts;
        ::stat(path.c_str(), &facts);
        const timespec before[2] = {{facts.st_mtim.tv_sec - 10, 0}, {facts.st_mtim.tv_sec - 10, 0}};
        ::utimensat(AT_FDCWD, path.c_str(), before, 0);
      }
      CHECK(cache.find(key(0)).has_value());  // which is used all the time
      CHECK(bytes() <= kMost + 52);
      CHECK(cache.find(key(10 * process + i)).has_value());
    }
  }
  CHECK(!fs::exists(left));
  CHECK(fs::exists(fresh));
  CHECK(fs::exists(folder.path + "/unrelated"));
  KernelCache cache(folder.path, kMost);
  CHECK(!cache.find(key(1)));
  CHECK(bytes() > kMost / 2);
}

}  // namespace

int main() {
  test_sha256();
  test_keys();
  test_found_again();
  test_damaged_files();
  test_what_others_may_write();
  test_nothing_fails();
  test_room();
  return test::summary();
}
