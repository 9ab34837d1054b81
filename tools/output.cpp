// SPDX-License-Identifier: BSD-3-Clause
//
// libsmartcols lays tables out. It never leaves a column away, so the columns that fit are chosen here first.
#include "tools/output.hpp"

#include <libsmartcols.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <sstream>

namespace sluice::tools {

namespace {

constexpr std::size_t kGap = 2;           // between columns
constexpr std::size_t kLeastWrapped = 20; // what wraps is no narrower by choice

struct TableDeleter {
    void operator()(libscols_table* table) const { scols_unref_table(table); }
};
using TablePointer = std::unique_ptr<libscols_table, TableDeleter>;

// The terminal's columns that TEXT takes; its bytes where that isn't known.
std::size_t columns_of(const std::string& text) {
    std::vector<wchar_t> wide(text.size() + 1);
    const std::size_t length = std::mbstowcs(wide.data(), text.c_str(), wide.size());
    const int columns = length == static_cast<std::size_t>(-1) ? -1 : wcswidth(wide.data(), length);
    return columns < 0 ? text.size() : static_cast<std::size_t>(columns);
}

std::vector<std::size_t> widths_of(const std::vector<Column>& columns, const std::vector<Row>& rows) {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        std::size_t width = columns_of(columns[i].name);
        for (const Row& row : rows) {
            width = std::max(width, i < row.size() ? columns_of(row[i].text) : 0);
        }
        widths.push_back(width);
    }
    return widths;
}

// Those of a table's columns that are shown.
struct ShownColumns {
    std::vector<bool> shown;
    std::size_t limit; // the terminal's width; 0: none
};

std::size_t width_needed(const std::vector<Column>& columns, const std::vector<std::size_t>& widths,
                         const std::vector<bool>& shown) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (shown[i]) {
            const std::size_t least = std::max(kLeastWrapped, columns_of(columns[i].name));
            total += (columns[i].wraps ? std::min(widths[i], least) : widths[i]) + (total == 0 ? 0 : kGap);
        }
    }
    return total;
}

// The column that goes next.
std::optional<std::size_t> next_to_drop(const std::vector<Column>& columns, const std::vector<bool>& shown) {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const bool may_go = shown[i] && columns[i].drops != 0;
        if (may_go && (!next || columns[i].drops < columns[*next].drops)) {
            next = i;
        }
    }
    return next;
}

ShownColumns choose_columns(const Options& options, const std::vector<Column>& columns,
                            const std::vector<std::size_t>& widths) {
    ShownColumns choice{std::vector<bool>(columns.size(), true), options.wide ? 0 : terminal_width()};
    while (choice.limit != 0 && width_needed(columns, widths, choice.shown) > choice.limit) {
        const std::optional<std::size_t> next = next_to_drop(columns, choice.shown);
        if (!next) {
            break;
        }
        choice.shown[*next] = false;
    }
    return choice;
}

// TEXT in lines of at most WIDTH columns, broken at spaces.
std::string in_lines(const std::string& text, std::size_t width) {
    std::istringstream words(text);
    std::string lines;
    std::size_t at = 0;
    for (std::string word; words >> word;) {
        const std::size_t more = columns_of(word) + (at == 0 ? 0 : 1);
        const bool fits = at == 0 || at + more <= width;
        lines += at == 0 ? "" : fits ? " " : "\n";
        lines += word;
        at = fits ? at + more : columns_of(word);
    }
    return lines;
}

template<class Pointer>
Pointer must_be(Pointer pointer) {
    return pointer == nullptr ? throw std::bad_alloc() : pointer;
}

void must_work(int status) {
    if (status != 0) {
        throw Failure(kExitFailure, "libsmartcols can't lay out a table: status " + std::to_string(status));
    }
}

class TableLayout {
  public:
    TableLayout(const Options& options, const std::vector<Column>& columns, const std::vector<Row>& rows)
        : columns_(columns), widths_(widths_of(columns, rows)),
          choice_(choose_columns(options, columns, widths_)), is_coloured_(is_coloured(options.color)) {
        prepare();
        for (std::size_t i = 0; i < columns.size(); ++i) {
            if (choice_.shown[i]) {
                add(columns[i]);
            }
        }
        for (const Row& row : rows) {
            add(row);
        }
    }

    std::string text() const {
        char* printed = nullptr;
        must_work(scols_print_table_to_string(table_.get(), &printed));
        const std::unique_ptr<char, decltype(&std::free)> owner(printed, &std::free);
        return printed == nullptr ? "" : printed;
    }

  private:
    void prepare() {
        must_work(scols_table_set_column_separator(table_.get(), "  "));
        must_work(scols_table_enable_colors(table_.get(), is_coloured_ ? 1 : 0));
        must_work(scols_table_set_termforce(table_.get(), choice_.limit == 0 ? SCOLS_TERMFORCE_NEVER
                                                                             : SCOLS_TERMFORCE_ALWAYS));
        must_work(scols_table_set_termwidth(table_.get(), choice_.limit));
    }

    bool is_narrow() const {
        return choice_.limit != 0 && width_needed(columns_, widths_, choice_.shown) > choice_.limit;
    }

    // A number that is cut is another number.
    bool is_cut(const Column& column) const {
        return is_narrow() && (column.alignment == Column::kLeft || !has_texts());
    }

    bool has_texts() const {
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            if (choice_.shown[i] && columns_[i].alignment == Column::kLeft) {
                return true;
            }
        }
        return false;
    }

    void add(const Column& column) {
        const int flags = (column.alignment == Column::kRight ? SCOLS_FL_RIGHT : 0) |
                          (wraps(column) ? SCOLS_FL_WRAP : 0) | (is_cut(column) ? SCOLS_FL_TRUNC : 0);
        libscols_column* const made =
            must_be(scols_table_new_column(table_.get(), column.name.c_str(), 0, flags));
        if (wraps(column)) {
            must_work(
                scols_column_set_wrapfunc(made, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, nullptr));
            must_work(scols_column_set_safechars(made, "\n"));
        }
        if (is_coloured_) {
            must_work(scols_cell_set_color(scols_column_get_header(made), sequence_of(Tone::kHeading)));
        }
    }

    bool wraps(const Column& column) const { return column.wraps && choice_.limit != 0 && !is_narrow(); }

    // What is left for a column that wraps, beside the others.
    std::size_t room() const {
        std::size_t others = 0;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            others += choice_.shown[i] && !columns_[i].wraps ? widths_[i] + kGap : 0;
        }
        return std::max(kLeastWrapped, choice_.limit - std::min(choice_.limit, others));
    }

    void add(const Row& row) {
        libscols_line* const line = must_be(scols_table_new_line(table_.get(), nullptr));
        std::size_t at = 0;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            if (choice_.shown[i]) {
                put(line, at++, i < row.size() ? row[i] : Cell(""), columns_[i]);
            }
        }
    }

    void put(libscols_line* line, std::size_t at, const Cell& cell, const Column& column) const {
        const std::string text = wraps(column) ? in_lines(cell.text, room()) : cell.text;
        must_work(scols_line_set_data(line, at, text.c_str()));
        if (is_coloured_ && cell.tone != Tone::kPlain) {
            must_work(scols_cell_set_color(scols_line_get_cell(line, at), sequence_of(cell.tone)));
        }
    }

    const std::vector<Column>& columns_;
    std::vector<std::size_t> widths_;
    ShownColumns choice_;
    bool is_coloured_;
    TablePointer table_{must_be(scols_new_table())};
};

// What libsmartcols fills the last column with.
void print_without_blanks(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        line.erase(line.find_last_not_of(' ') + 1);
        std::cout << line << '\n';
    }
}

} // namespace

void flush_or_fail(std::ostream& stream, const std::string& what) {
    if (stream.flush()) {
        return;
    }
    // A stream that has failed before doesn't know why any more. What is written to is of no use already: one
    // more byte spoils nothing, and tells.
    errno = 0;
    stream.clear();
    stream.put('\n').flush();
    const int error = errno;
    throw Failure(kExitFailure, what + " can't be written" +
                                    (error != 0 ? std::string(": ") + std::strerror(error) : std::string()));
}

void print_table(const Options& options, const std::vector<Column>& columns, const std::vector<Row>& rows) {
    print_without_blanks(TableLayout(options, columns, rows).text());
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : " ") + word;
    }
    return text;
}

std::string counted(std::uint64_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void say_in_one_piece(const std::string& text) {
    std::cerr.write(text.data(), static_cast<std::streamsize>(text.size()));
}

} // namespace sluice::tools
