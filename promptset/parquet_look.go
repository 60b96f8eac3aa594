package promptset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// LookParquet reads the footer of a file.
func LookParquet(_ context.Context, s *Source, f File) (*Contents, error) {
	pf, err := parseParquet(s.Name, f, f.Size(), s.Mapping, s.Partitions...)
	if err != nil {
		return nil, err
	}
	digest, err := footerDigest(f)
	if err != nil {
		return nil, s.Error("cannot read it", err)
	}
	return &Contents{Rows: pf.file.NumRows(), Digest: digest, Columns: pf.root.fields, Texts: pf.texts(),
		Lacks: pf.lacks, Reader: parquetRows{}}, nil
}

// parquetRows reads the rows of files by their footers alone.
type parquetRows struct{}

func (parquetRows) Read(ctx context.Context, in *Opened, from, to int64, yield func(*Row) bool) (bool, error) {
	pf, err := parseParquet(in.Name, in.File, in.File.Size(), in.Mapping, in.Partitions...)
	if err != nil {
		return false, err
	}
	if pf.file.NumRows() != in.Rows {
		return false, in.ChangedRows(pf.file.NumRows())
	}
	return pf.rows(ctx, in, pf.groups(), from, to, yield)
}

// footerDigest is the digest of a Parquet file.
func footerDigest(f File) (string, error) {
	var tail [8]byte
	if n, err := f.ReadAt(tail[:], f.Size()-8); n < len(tail) {
		return "", err
	}
	size := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, f.Size()-8-size, size+8)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
