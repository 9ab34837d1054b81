# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: awk -f header_pages.awk -v to=DIRECTORY -v include=NAME [-v intro=PAGE] HEADER
#
# The manual pages of librpma, from a header that is the manual, which programs include as NAME: one in section 3 for each
# function, and PAGE in section 7, if it is given, from the comment at the header's beginning. A function's comment begins with "/**" and "name - what it does"; paragraphs follow,
# then "Returns:" and "Errors:" with a list.

BEGIN { has_intro = intro == "" }

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/) {
        text = "\\&" text
    }
    return text
}

function put(text) { print text > page }

function begin_page(name, section) {
    page = to "/" name "." section
    put(".TH " name " " section " \"\" \"Sluice\" \"librpma\"")
    put(".SH NAME")
}

# The lines that were collected, as paragraphs, lists and what is indented as it stands.
function put_body(    i, text, in_list, in_block) {
    for (i = 1; i <= count; ++i) {
        text = line[i]
        if (text ~ /^  +[^ ]/ && !in_list) {
            if (!in_block) {
                put(".nf")
            }
            in_block = 1
            put(escaped(text))
            continue
        }
        if (in_block) {
            put(".fi")
            in_block = 0
        }
        if (text == "") {
            put(".PP")
            in_list = 0
        } else if (text ~ /^Returns: /) {
            put(".SH RETURN VALUE")
            put(escaped(substr(text, 10)))
        } else if (text == "Errors:") {
            put(".SH ERRORS")
        } else if (text ~ /^- /) {
            in_list = 1
            split(substr(text, 3), parts, ": ")
            put(".TP")
            put(".B " parts[1])
            put(escaped(substr(text, length(parts[1]) + 5)))
        } else {
            sub(/^ +/, "", text)
            put(escaped(text))
        }
    }
}

function finish_function(    name) {
    name = line[1]
    sub(/ - .*/, "", name)
    begin_page(name, 3)
    put(escaped(line[1]))
    put(".SH SYNOPSIS")
    put(".nf")
    put(".B #include <" include ">")
    put("")
    put(escaped(declaration))
    put(".fi")
    put(".SH DESCRIPTION")
    line[1] = ""
    for (i = 2; i < count; ++i) { # the empty line after the name
        line[i - 1] = line[i + 1]
    }
    count -= 2
    put_body()
    put(".SH SEE ALSO")
    put(".BR librpma (7)")
    close(page)
}

/^\/\*\*$/ {
    in_comment = 1
    is_function = 1
    count = 0
    next
}
/^\/\*$/ && !has_intro {
    in_comment = 1
    count = 0
    next
}
in_comment && /^ \*\/$/ {
    in_comment = 0
    if (is_function) {
        in_declaration = 1
        declaration = ""
    } else {
        has_intro = 1
        begin_page(intro, 7)
        put("librpma \\- remote access to memory, persistent or not")
        put(".SH DESCRIPTION")
        put_body()
        close(page)
    }
    next
}
in_comment {
    text = $0
    sub(/^ \* ?/, "", text)
    line[++count] = text
    next
}
in_declaration {
    declaration = declaration (declaration == "" ? "" : "\n") $0
    if ($0 ~ /;$/) {
        in_declaration = 0
        is_function = 0
        finish_function()
    }
}
