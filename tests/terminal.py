"""Runs a program on a terminal of its own and does what a person would do there.

usage: terminal.py COLUMNS ROWS PROGRAM [ARG]...

Reads orders from standard input, a line each:
  wait TEXT      until the screen shows it
  gone TEXT      until the screen shows it no more
  type TEXT      types it; \\e is Escape, \\r Enter, \\t Tab, \\x1a and the like other keys
  size C R       makes the terminal another size
  signal NAME    sends the program a signal
  stopped        until the program stands still
  touch PATH     makes a file, for those who wait for it
  show           prints the screen
  end            until the program has ended; prints its exit code and how it left the terminal

It knows just enough of a terminal: what it does not know ends it.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata

LIMIT = 120  # No wait is longer; one that needs it has failed.


class Screen:
    def __init__(self, columns, rows):
        self.modes = {}
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.x = self.y = 0

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def put(self, letter):
        wide = unicodedata.east_asian_width(letter) in "WF"
        if self.y < self.rows and self.x < self.columns:
            self.cells[self.y][self.x] = letter
            if wide and self.x + 1 < self.columns:
                self.cells[self.y][self.x + 1] = ""
        self.x += 2 if wide else 1

    def obey(self, parameters, letter):
        numbers = [int(n) if n.isdigit() else 0 for n in parameters.lstrip("?").split(";")]
        if parameters.startswith("?") and letter in "hl":
            for number in numbers:
                self.modes[number] = letter == "h"
        elif letter == "H":
            self.y = max(numbers[0], 1) - 1
            self.x = max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif letter == "J" and numbers[0] == 2:
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif letter != "m":
            sys.exit(f"not known: CSI {parameters} {letter}")


class Terminal:
    def __init__(self, columns, rows, argv):
        self.screen, self.rest, self.status = Screen(columns, rows), "", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Until the terminal has its size.
            os.read(0, 1)
            os.execvp(argv[0], argv)
        self.size(columns, rows)
        self.before = termios.tcgetattr(self.fd)
        os.write(self.fd, b"\n")

    def size(self, columns, rows):
        self.screen.resize(columns, rows)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return None
        self.rest += data.decode("utf-8", "surrogateescape")
        pattern = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b])")
        at = 0
        while match := pattern.match(self.rest, at):
            parameters, order, letter = match.groups()
            if order:
                self.screen.obey(parameters, order)
            elif letter >= " ":
                self.screen.put(letter)
            elif letter == "\n":
                self.screen.y += 1
            elif letter == "\r":
                self.screen.x = 0
            at = match.end()
        self.rest = self.rest[at:]
        return True

    def until(self, what, done):
        end = time.monotonic() + LIMIT
        while not done():
            if time.monotonic() > end:
                sys.exit(f"never: {what}\n{self.screen.text()}")
            if self.read(0.05) is None and not done():
                sys.exit(f"it has ended before: {what}\n{self.screen.text()}")

    def has_ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def end(self):
        end = time.monotonic() + LIMIT
        while not self.has_ended():
            # The terminal is gone a little before the program is.
            if self.read(0.05) is None:
                time.sleep(0.01)
            if time.monotonic() > end:
                sys.exit(f"it never ends\n{self.screen.text()}")
        while self.read(0.05):
            pass
        modes = self.screen.modes
        code = os.waitstatus_to_exitcode(self.status)
        # 1049: another screen, 25: the cursor, 2004: pastes in brackets.
        left = (modes.get(1049), modes.get(25, True), modes.get(2004, False))
        clean = left in [(False, True, False), (None, True, False)]
        try:
            clean = clean and termios.tcgetattr(self.fd)[:4] == self.before[:4]
        except OSError:
            pass
        print(f"exit {code}, the terminal is {'as it was' if clean else f'not as it was: {left}'}")


def main():
    columns, rows = int(sys.argv[1]), int(sys.argv[2])
    terminal = Terminal(columns, rows, sys.argv[3:])
    for line in sys.stdin:
        order, _, rest = line.rstrip("\n").partition(" ")
        if order == "wait":
            terminal.until(line, lambda: rest in terminal.screen.text())
        elif order == "gone":
            terminal.until(line, lambda: rest not in terminal.screen.text())
        elif order == "type":
            typed = rest.replace("\\e", "\x1b")
            os.write(terminal.fd, typed.encode().decode("unicode_escape").encode())
        elif order == "size":
            terminal.size(*map(int, rest.split()))
        elif order == "signal":
            os.kill(terminal.pid, getattr(signal, f"SIG{rest}"))
        elif order == "stopped":
            def is_stopped():
                state = open(f"/proc/{terminal.pid}/stat").read().rsplit(")", 1)[1].split()[0]
                return state == "T"
            terminal.until(line, is_stopped)
        elif order == "touch":
            with open(rest, "w") as file:
                file.write("\n")
        elif order == "show":
            print(terminal.screen.text())
        elif order == "end":
            terminal.end()
        else:
            sys.exit(f"not known: {line}")
        sys.stdout.flush()


main()
