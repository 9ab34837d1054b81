# SPDX-License-Identifier: BSD-3-Clause
"""The package sluice_sync, over the library that LD_LIBRARY_PATH names."""

import array
import errno
import mmap
import unittest

import sluice_sync

RANGE_CALLS = (sluice_sync.clean, sluice_sync.invalidate, sluice_sync.clean_invalidate)
BATCH_CALLS = (sluice_sync.clean_batch, sluice_sync.invalidate_batch, sluice_sync.clean_invalidate_batch)


def pattern(size):
    return bytes(i * 7 % 251 for i in range(size))


class Queries(unittest.TestCase):
    def test_version(self):
        self.assertRegex(sluice_sync.version(), r"^\d+\.\d+\.\d+$")

    def test_cpu(self):
        cpu = sluice_sync.cpu()
        self.assertTrue(cpu.clean and cpu.invalidate and cpu.line_source)
        self.assertEqual(cpu.granule_bytes % cpu.line_bytes, 0)
        self.assertGreaterEqual(cpu.line_bytes, 16)
        self.assertEqual(cpu.checking, 0)


class Ranges(unittest.TestCase):
    def test_kinds_of_buffers_keep_their_bytes(self):
        anonymous = mmap.mmap(-1, 8192)
        anonymous[:] = pattern(8192)
        for buffer in (bytearray(pattern(1000)), pattern(1000), memoryview(pattern(1000))[3:900],
                       array.array("Q", range(100)), anonymous):
            before = bytes(buffer)
            for call in RANGE_CALLS:
                call(buffer)
                call(buffer, 10)
                call(buffer, 10, 20)
                call(buffer, 0, 0)
            self.assertEqual(bytes(buffer), before)

    def test_persist_is_done_or_not_supported(self):
        if sluice_sync.cpu().persist == "none":
            with self.assertRaises(OSError) as caught:
                sluice_sync.persist(bytearray(10))
            self.assertEqual(caught.exception.errno, errno.EOPNOTSUPP)
        else:
            sluice_sync.persist(bytearray(10))
            sluice_sync.persist_batch([bytearray(10)])

    def test_batches(self):
        buffers = [bytearray(pattern(100)), pattern(200), bytearray(), memoryview(pattern(300))[1:]]
        before = [bytes(buffer) for buffer in buffers]
        for call in BATCH_CALLS:
            call(buffers)
            call([])
        self.assertEqual([bytes(buffer) for buffer in buffers], before)

    def test_outside_of_the_buffer_is_an_index_error(self):
        buffer = bytearray(100)
        for offset, length in ((101, None), (-1, None), (-1, 1), (0, 101), (100, 1), (50, 51), (0, -1)):
            with self.assertRaises(IndexError):
                sluice_sync.clean(buffer, offset, length)
        buffer.append(1)  # a view that wasn't released would forbid that

    def test_what_is_no_number_is_a_type_error(self):
        buffer = bytearray(100)
        for offset, length in ((None, None), ("8", None), (8.0, None), (0, "8"), (0, 8.0), ("8", 8), (None, 8)):
            with self.assertRaises(TypeError):
                sluice_sync.clean(buffer, offset, length)
            with self.assertRaises(TypeError):
                sluice_sync.copy(buffer, b"new", "8")
            buffer.append(1)  # a view that wasn't released would forbid that
        self.assertEqual(buffer, bytes(100) + b"\1" * 7)

    def test_no_buffer_is_a_type_error(self):
        for wrong in (None, 7, "text", [1]):
            with self.assertRaises(TypeError):
                sluice_sync.clean(wrong)

    def test_every_second_byte_is_no_run(self):
        with self.assertRaises(BufferError):
            sluice_sync.clean(memoryview(bytearray(100))[::2])


class Copies(unittest.TestCase):
    def test_arrives(self):
        for size in (0, 1, 100, 5000, 100000):
            target = bytearray(b"\xee" * (size + 20))
            sluice_sync.copy(target, pattern(size), 7)
            self.assertEqual(target, b"\xee" * 7 + pattern(size) + b"\xee" * 13)

    def test_read_only_target_is_refused(self):
        target = bytes(100)
        with self.assertRaises(BufferError):
            sluice_sync.copy(target, b"new")
        self.assertEqual(target, bytes(100))

    def test_too_long_is_an_index_error_and_nothing_is_stored(self):
        target = bytearray(10)
        for offset in (8, 11, -1):
            with self.assertRaises(IndexError):
                sluice_sync.copy(target, b"abc", offset)
        self.assertEqual(target, bytes(10))

    def test_overlap_is_einval(self):
        buffer = bytearray(pattern(100))
        with self.assertRaises(OSError) as caught:
            sluice_sync.copy(buffer, memoryview(buffer)[10:60])
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertEqual(buffer, pattern(100))


class Flags(unittest.TestCase):
    def setUp(self):
        self.memory = mmap.mmap(-1, 8192)

    def test_published_is_observed(self):
        for value in (1, 2**63, 2**64 - 1, 0):
            sluice_sync.publish(self.memory, value, 4096)
            self.assertEqual(sluice_sync.observe(self.memory, 4096), value)
        self.assertEqual(sluice_sync.observe(self.memory), 0)

    def test_what_is_no_flag(self):
        with self.assertRaises(OSError) as caught:
            sluice_sync.publish(self.memory, 1, 4)
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        with self.assertRaises(IndexError):
            sluice_sync.observe(self.memory, 8192 - 4)
        for value in (-1, 2**64):
            with self.assertRaises(OverflowError):
                sluice_sync.publish(self.memory, value)
        with self.assertRaises(BufferError):
            sluice_sync.publish(bytes(8), 1)
        self.assertEqual(self.memory[:], bytes(8192))


if __name__ == "__main__":
    unittest.main()
