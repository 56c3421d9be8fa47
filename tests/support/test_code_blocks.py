"""The reader of pages: it finds every block, and every command with what it prints."""

from support.code_blocks import read_blocks

PAGE = """# Title

```sh
one 'a > b' c > out.txt    # exit code 3

two --gate '>=1.2x'
```

* an item

  ```python
  print(1)
  ```

  ```text
  1
  ```

Text.

~~~ console
$ one
first

second
$ two  # the file is wrong: exit code 2
~~~

    indented

```text
apart
```
"""


def test_every_block_is_found_with_its_line():
    found = list(read_blocks(PAGE, "page.md"))
    assert [(each.line, each.tag) for each in found] == [
        (3, "sh"), (11, "python"), (15, "text"), (21, "console"), (29, ""), (31, "text"),
    ]  # fmt: skip
    assert str(found[0]) == "page.md:3"
    assert [each.text for each in found if each.is_output] == ["1\n"]


def test_commands_have_words_code_redirection_and_output():
    shell, _, _, console, _, _ = read_blocks(PAGE, "page.md")
    one, two = shell.commands
    assert (one.words, one.exit_code, one.stdout) == (("one", "a > b", "c"), 3, "out.txt")
    assert (two.words, two.exit_code, two.stdout) == (("two", "--gate", ">=1.2x"), 0, None)
    assert [(each.words, each.exit_code, each.shown) for each in console.commands] == [
        (("one",), 0, ("first", "second")),
        (("two",), 2, ()),
    ]
