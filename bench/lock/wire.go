package main

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// wire counts the commands that go over connections of its own, whoever the
// client is and whatever goes into one write.
type wire struct{ sent atomic.Int64 }

// dial is for go-redis and, without the address family, for rueidis.
func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: c, wire: w}, nil
}

// wireConn reads along as the client writes commands: *<parts>, then $<length> and
// as many bytes for each part.
type wireConn struct {
	net.Conn
	wire *wire
	line []byte // what has come of a line
	skip int    // bytes of a part that are to come
}

func (c *wireConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if c.skip > 0 {
			n := min(c.skip, len(rest))
			c.skip, rest = c.skip-n, rest[n:]
			continue
		}
		c.line = append(c.line, rest[0])
		if rest[0] == '\n' {
			c.read(string(c.line))
			c.line = c.line[:0]
		}
		rest = rest[1:]
	}
	return c.Conn.Write(b)
}

func (c *wireConn) read(line string) {
	if line[0] == '*' {
		c.wire.sent.Add(1)
	}
	if line[0] == '$' && len(line) > 3 {
		n, _ := strconv.Atoi(line[1 : len(line)-2])
		c.skip = n + 2
	}
}
