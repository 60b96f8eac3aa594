package smoke

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
)

// copyStripped copies a program without what is not loaded to run it: in an ELF file, the symbols and debugging
// information after the last segment, and the table of sections. It needs no tool, and the same program gives the same
// bytes. Files of other formats are copied whole.
func copyStripped(to io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	parsed, err := elf.NewFile(file)
	if err != nil || parsed.Class != elf.ELFCLASS64 {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err = io.Copy(to, file)
		return err
	}
	var header elf.Header64
	if err := binary.Read(io.NewSectionReader(file, 0, int64(binary.Size(header))), parsed.ByteOrder,
		&header); err != nil {
		return err
	}
	end := header.Phoff + uint64(header.Phnum)*uint64(header.Phentsize)
	for _, segment := range parsed.Progs {
		end = max(end, segment.Off+segment.Filesz)
	}
	header.Shoff, header.Shnum, header.Shstrndx = 0, 0, 0
	if err := binary.Write(to, parsed.ByteOrder, &header); err != nil {
		return err
	}
	size := int64(binary.Size(header))
	_, err = io.Copy(to, io.NewSectionReader(file, size, int64(end)-size))
	return err
}
