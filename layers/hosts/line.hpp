// SPDX-License-Identifier: BSD-3-Clause
//
// A line of shared memory as one host has it.
//
// There is no cache to ask which lines are dirty. A third copy tells: what the line held when the host's
// image and memory were the same. So a store of the value that was there already makes no line dirty.
//
// Thread safety: whoever moves a line holds the SharedLock. The program of either host may store to its image
// meanwhile: hence word by word, and with an exchange where such a store would be lost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::layers::hosts {

inline constexpr std::size_t kLineBytes = 64;

class Line {
  public:
    using Word = std::uint64_t;

    Line(std::byte* memory, std::byte* image, std::byte* former) noexcept
        : memory_(reinterpret_cast<Word*>(memory)), image_(reinterpret_cast<Word*>(image)),
          former_(reinterpret_cast<Word*>(former)) {}

    bool is_dirty() const noexcept {
        bool is_dirty = false;
        for (std::size_t i = 0; i < kWords; ++i) {
            is_dirty = is_dirty || load(image_ + i) != load(former_ + i);
        }
        return is_dirty;
    }
    // Whether memory holds something else than this host had.
    bool has_news() const noexcept {
        bool has_news = false;
        for (std::size_t i = 0; i < kWords; ++i) {
            has_news = has_news || load(memory_ + i) != load(former_ + i);
        }
        return has_news;
    }
    bool is_dirty_at(std::size_t word) const noexcept { return load(image_ + word) != load(former_ + word); }
    // Whether memory holds something else than this host had, and has.
    bool is_old_at(std::size_t word) const noexcept {
        const Word former = load(former_ + word);
        return load(memory_ + word) != former && load(image_ + word) == former;
    }
    // What memory holds.
    std::array<Word, kLineBytes / sizeof(Word)> memory_words() const noexcept { return words_at(memory_); }
    // What the host's image holds.
    std::array<Word, kLineBytes / sizeof(Word)> words() const noexcept { return words_at(image_); }
    // All of it, as a cache does, and not only what was stored.
    void write_back() const noexcept {
        for (std::size_t i = 0; i < kWords; ++i) {
            const Word word = load(image_ + i);
            store(memory_ + i, word);
            store(former_ + i, word);
        }
    }
    // The line isn't dirty; a word that was stored since then stays.
    void fetch() const noexcept {
        for (std::size_t i = 0; i < kWords; ++i) {
            const Word word = load(memory_ + i);
            Word expected = load(former_ + i);
            if (word != expected) {
                store(former_ + i, word);
                __atomic_compare_exchange_n(image_ + i, &expected, word, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED);
            }
        }
    }

  private:
    static constexpr std::size_t kWords = kLineBytes / sizeof(Word);

    static std::array<Word, kWords> words_at(const Word* from) noexcept {
        std::array<Word, kWords> words{};
        for (std::size_t i = 0; i < kWords; ++i) {
            words[i] = load(from + i);
        }
        return words;
    }
    static Word load(const Word* word) noexcept { return __atomic_load_n(word, __ATOMIC_RELAXED); }
    static void store(Word* word, Word value) noexcept { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

    Word* memory_;
    Word* image_;
    Word* former_;
};

} // namespace sluice::layers::hosts
