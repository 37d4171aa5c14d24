// Runs recorded calls of the entry points again and compares every byte that they leave behind.
//
// A program of its own, since a sanitizer must be in a process from its start. Each array lies in
// memory of exactly its size. Format, all numbers int64: calls; for each its name in 32 bytes, the
// structure (bytes, content), pointers (place in the structure, array, offset into it), arrays
// (bytes, content before, content after). recorded_calls.py writes it. The second argument is the
// order of the lanes, for fibres.
#include <dlfcn.h>

#include <fstream>
#include <iostream>

namespace {

struct Reader {
  std::ifstream file;

  int64_t number() {
    int64_t value = 0;
    file.read(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }
  std::unique_ptr<char[]> bytes(int64_t count) {
    std::unique_ptr<char[]> content(new char[count]);
    file.read(content.get(), count);
    return content;
  }
};

struct Array {
  int64_t size;
  std::unique_ptr<char[]> now, expected;
};

int replay(Reader& reader) {
  const std::string name = reader.bytes(32).get();
  const auto structure = reader.bytes(reader.number());
  struct Pointer {
    int64_t place, array, offset;
  };
  std::vector<Pointer> pointers(reader.number());
  for (Pointer& each : pointers) each = {reader.number(), reader.number(), reader.number()};
  std::vector<Array> arrays(reader.number());
  for (Array& each : arrays) {
    each.size = reader.number();
    each.now = reader.bytes(each.size);
    each.expected = reader.bytes(each.size);
  }
  for (const Pointer& each : pointers) {
    char* at = arrays[each.array].now.get() + each.offset;
    memcpy(structure.get() + each.place, &at, sizeof(at));
  }
  using Entry = int (*)(const void*, void*);
  const Entry entry = reinterpret_cast<Entry>(dlsym(RTLD_DEFAULT, name.c_str()));
  if (!entry) {
    std::cerr << "no entry point " << name << "\n";
    return 1;
  }
  const int error = entry(structure.get(), nullptr);
  if (error) std::cerr << name << ": " << cudaGetErrorString(error) << "\n";
  int wrong = error != 0;
  for (const Pointer& each : pointers) {
    const Array& array = arrays[each.array];
    if (memcmp(array.now.get(), array.expected.get(), array.size) == 0) continue;
    std::cerr << name << ": the array at byte " << each.place << " of its structure differs\n";
    wrong = 1;
  }
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  Reader reader{std::ifstream(arguments[1], std::ios::binary)};
  fk_set_order(atoi(arguments[2]));
  int wrong = 0;
  const int64_t calls = reader.number();
  for (int64_t i = 0; i < calls; ++i) wrong |= replay(reader);
  if (!reader.file) std::cerr << "the file ends early\n";
  std::cout << calls << " calls\n";
  return wrong || !reader.file || calls == 0;
}
