package s3compat

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// verifier passes a body on and checks its length and, when sum is not empty,
// its checksum.
type verifier struct {
	body io.ReadCloser
	left int64
	sum  string
	hash hash.Hash
	err  error
}

func newVerifier(body io.ReadCloser, n int64, sum string) *verifier {
	return &verifier{body: body, left: n, sum: sum, hash: sha256.New()}
}

// Read implements [io.Reader].
func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.body.Read(p)
	v.left -= int64(n)
	if v.sum != "" {
		v.hash.Write(p[:n])
	}
	switch {
	case v.left < 0:
		err = corrupt("the data is longer than it was")
	case errors.Is(err, io.EOF) && v.left > 0, errors.Is(err, io.ErrUnexpectedEOF):
		err = corrupt("the data is shorter than it was")
	case errors.Is(err, io.EOF) && v.sum != "" && hex.EncodeToString(v.hash.Sum(nil)) != v.sum:
		err = corrupt("the checksum of the data does not match")
	}
	v.err = err
	return n, err
}

// Close implements [io.Closer].
func (v *verifier) Close() error { return v.body.Close() }
