// Binary features of tokens from a window around them: their names are made, counted and looked up.
#include "arrays.hpp"

#include <deque>
#include <functional>
#include <string_view>

using namespace latentstruct;

namespace {

using Text = std::string_view;
// Rows (column, first offset, number of adjacent offsets).
using Groups = In<Index, 2>;

Text text_of(nb::handle value) {
  Py_ssize_t size = 0;
  const char *data = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (!data) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Backslashes and bars are escaped by a backslash, so that different values have different names.
void append_escaped(std::string &name, Text text) {
  for (const char byte : text) {
    if (byte == '\\' || byte == '|') name.push_back('\\');
    name.push_back(byte);
  }
}

// Texts with consecutive numbers, and how often they were counted.
class Table {
  // The number of a text, -1 for none, beside its hash: texts are rarely compared.
  struct Slot {
    std::uint32_t hash;
    std::int32_t number = -1;
  };
  struct Entry {
    std::size_t start;
    std::uint32_t length, count;
  };
  std::string letters;
  std::vector<Entry> entries;
  std::vector<Slot> slots;

  static std::uint32_t hash_of(Text text) { return static_cast<std::uint32_t>(std::hash<Text>{}(text)); }
  std::size_t slot_of(Text text, std::uint32_t hash) const {
    const std::size_t mask = slots.size() - 1;
    std::size_t slot = hash & mask;
    while (slots[slot].number >= 0 && (slots[slot].hash != hash || (*this)[slots[slot].number] != text))
      slot = (slot + 1) & mask;
    return slot;
  }

public:
  explicit Table(std::size_t least, std::size_t n_letters = 0) {
    std::size_t size = 64;
    while (size < 2 * least) size *= 2;
    slots.resize(size);
    entries.reserve(least);
    letters.reserve(n_letters);
  }
  std::size_t size() const { return entries.size(); }
  Text operator[](std::size_t k) const { return Text(letters).substr(entries[k].start, entries[k].length); }
  Index count_of(std::size_t k) const { return entries[k].count; }
  std::int32_t find(Text text) const { return slots[slot_of(text, hash_of(text))].number; }
  void count(Text text) {
    const std::uint32_t hash = hash_of(text);
    const std::size_t slot = slot_of(text, hash);
    if (slots[slot].number >= 0) {
      ++entries[slots[slot].number].count;
      return;
    }
    slots[slot] = {hash, static_cast<std::int32_t>(size())};
    entries.push_back({letters.size(), static_cast<std::uint32_t>(text.size()), 1});
    letters += text;
    if (2 * size() > slots.size()) grow();
  }

private:
  void grow() {
    std::vector<Slot> old(2 * slots.size());
    old.swap(slots);
    const std::size_t mask = slots.size() - 1;
    for (const Slot &one : old) {
      if (one.number < 0) continue;
      std::size_t slot = one.hash & mask;
      while (slots[slot].number >= 0) slot = (slot + 1) & mask;
      slots[slot] = one;
    }
  }
};

// Tokens of sentences, and the template of their features.
class Template {
  Groups groups;
  std::vector<Text> prefixes, words, shapes;
  std::vector<std::vector<Text>> columns; // with markers around each sentence
  std::vector<std::size_t> places;        // of the tokens among tokens and markers
  std::deque<std::string> made;           // markers and escaped values
  Index affixes;

  Text escaped(Text text) {
    if (text.find_first_of("\\|") == Text::npos) return text;
    append_escaped(made.emplace_back(), text);
    return made.back();
  }

public:
  Template(const Groups &groups, const nb::list &names, Index affixes, const nb::list &shapes_of, const nb::list &values,
           const Indices &offsets, Index window)
      : groups(groups), affixes(affixes) {
    require(groups.shape(1) == 3 && nb::len(names) == groups.shape(0), "groups must have three numbers and a name");
    require(offsets.shape(0) > 0 && offsets(0) == 0 && window >= 0 && nb::len(values) > 0, "no offsets or columns");
    const std::size_t n = offsets(offsets.shape(0) - 1);
    for (std::size_t g = 0; g < groups.shape(0); ++g) {
      const Index column = groups(g, 0), first = groups(g, 1), size = groups(g, 2);
      require(column >= 0 && column < static_cast<Index>(nb::len(values)) && first >= -window && size > 0 &&
                  first + size - 1 <= window,
              "groups must be within the window");
    }
    for (const nb::handle name : names) prefixes.push_back(text_of(name));
    for (const nb::handle shape : shapes_of) shapes.push_back(text_of(shape));
    std::vector<Text> before, after;
    for (Index k = window; k > 0; --k) before.push_back(made.emplace_back("\\B" + std::to_string(k)));
    for (Index k = 1; k <= window; ++k) after.push_back(made.emplace_back("\\E" + std::to_string(k)));
    for (const nb::handle one : values) {
      const nb::list column = nb::cast<nb::list>(one);
      require(nb::len(column) == n && (shapes.empty() || shapes.size() == n), "columns must have a value per token");
      std::vector<Text> &padded = columns.emplace_back();
      const bool first = columns.size() == 1;
      for (std::size_t s = 0; s + 1 < offsets.shape(0); ++s) {
        require(offsets(s) <= offsets(s + 1) && offsets(s + 1) <= static_cast<Index>(n), "offsets must not decrease");
        padded.insert(padded.end(), before.begin(), before.end());
        for (Index t = offsets(s); t < offsets(s + 1); ++t) {
          const Text value = text_of(column[t]);
          if (first) {
            words.push_back(value);
            places.push_back(padded.size());
          }
          padded.push_back(escaped(value));
        }
        padded.insert(padded.end(), after.begin(), after.end());
      }
    }
  }

  std::size_t n_tokens() const { return words.size(); }
  std::size_t most_features() const { return 1 + groups.shape(0) + 2 * affixes + !shapes.empty(); }

  // Call a function with the name of each feature of a token.
  template <typename F> void each(std::size_t token, std::string &name, F take) const {
    take(Text("bias"));
    for (std::size_t g = 0; g < groups.shape(0); ++g) {
      const Text *values = columns[groups(g, 0)].data() + places[token] + groups(g, 1);
      name.assign(prefixes[g]);
      for (Index k = 0; k < groups(g, 2); ++k) {
        if (k) name.push_back('|');
        name.append(values[k]);
      }
      take(Text(name));
    }
    const Text word = words[token];
    std::size_t start = 0, stop = word.size();
    for (Index length = 1; length <= affixes && start < word.size(); ++length) {
      do ++start; while (start < word.size() && continues(word[start]));
      do --stop; while (stop > 0 && continues(word[stop]));
      const std::string number = std::to_string(length) + "=";
      append_escaped(name.assign("prefix").append(number), word.substr(0, start));
      take(Text(name));
      append_escaped(name.assign("suffix").append(number), word.substr(stop));
      take(Text(name));
    }
    if (!shapes.empty()) take(Text(name.assign("shape=").append(shapes[token])));
  }
};

class FeatureNames {
  Table table;

  explicit FeatureNames(Table table) : table(std::move(table)) {}

public:
  explicit FeatureNames(const nb::list &names) : table(nb::len(names)) {
    for (const nb::handle name : names) table.count(text_of(name));
  }

  void count(const Groups &groups, const nb::list &prefixes, Index affixes, const nb::list &shapes,
             const nb::list &columns, const Indices &offsets, Index window) {
    const Template tokens(groups, prefixes, affixes, shapes, columns, offsets, window);
    std::string name;
    for (std::size_t t = 0; t < tokens.n_tokens(); ++t)
      tokens.each(t, name, [this](Text text) { table.count(text); });
    require(table.size() < std::size_t{1} << 31, "more than 2**31 names of features");
  }

  // Write the sorted numbers of the features of each token, and where those of each token begin; return the number of
  // all.
  Index find(const Groups &groups, const nb::list &prefixes, Index affixes, const nb::list &shapes,
             const nb::list &columns, const Indices &offsets, Index window, const Out<std::int32_t, 1> &found,
             const Out<Index, 1> &pointers) const {
    const Template tokens(groups, prefixes, affixes, shapes, columns, offsets, window);
    require_length(tokens.n_tokens() + 1, pointers);
    require_length(tokens.n_tokens() * tokens.most_features(), found);
    std::string name;
    std::int32_t *end = found.data();
    pointers(0) = 0;
    for (std::size_t t = 0; t < tokens.n_tokens(); ++t) {
      std::int32_t *begin = end;
      tokens.each(t, name, [this, &end](Text text) {
        const std::int32_t number = table.find(text);
        if (number >= 0) *end++ = number;
      });
      std::sort(begin, end);
      pointers(t + 1) = end - found.data();
    }
    return end - found.data();
  }

  // The names that were counted often enough, sorted by frequency and then by name.
  FeatureNames frequent(Index least) const {
    std::vector<std::size_t> kept;
    std::size_t n_letters = 0;
    for (std::size_t k = 0; k < table.size(); ++k)
      if (table.count_of(k) >= least) {
        kept.push_back(k);
        n_letters += table[k].size();
      }
    std::sort(kept.begin(), kept.end(), [this](std::size_t a, std::size_t b) {
      return table.count_of(a) != table.count_of(b) ? table.count_of(a) > table.count_of(b) : table[a] < table[b];
    });
    Table found(kept.size(), n_letters);
    for (const std::size_t k : kept) found.count(table[k]);
    return FeatureNames(std::move(found));
  }

  nb::list names() const {
    nb::list found;
    for (std::size_t k = 0; k < table.size(); ++k) found.append(nb::str(table[k].data(), table[k].size()));
    return found;
  }
  std::size_t size() const { return table.size(); }
};

} // namespace

NB_MODULE(windows, m) {
  nb::class_<FeatureNames>(m, "FeatureNames")
      .def(nb::init<const nb::list &>())
      .def("count", &FeatureNames::count)
      .def("find", &FeatureNames::find)
      .def("frequent", &FeatureNames::frequent)
      .def("names", &FeatureNames::names)
      .def("__len__", &FeatureNames::size);
}
