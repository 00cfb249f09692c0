package testenv_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// conn speaks Redis' inline commands, one line each way.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := tryDial(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryDial(t *testing.T, addr string) (*conn, error) {
	t.Helper()
	d := net.Dialer{Timeout: soon}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	return &conn{Conn: c, r: bufio.NewReader(c)}, nil
}

func send(t *testing.T, c *conn, line string) {
	t.Helper()
	if _, err := c.Write([]byte(line + "\r\n")); err != nil {
		t.Fatalf("send %s: %v", line, err)
	}
}

func receive(t *testing.T, c *conn) string {
	t.Helper()
	line, err := tryReceive(c, soon)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return line
}

func tryReceive(c *conn, within time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	if err == nil && line[0] == '$' && line[1] != '-' {
		line, err = c.r.ReadString('\n')
	}
	return strings.TrimLeft(strings.TrimSpace(line), "+:"), err
}

func ask(t *testing.T, c *conn, line string) string {
	t.Helper()
	send(t, c, line)
	return receive(t, c)
}

// silent shows that nothing arrives and that the connection stays open. It can
// only ever be wrong in one direction: a slow machine makes it pass.
func silent(t *testing.T, c *conn) {
	t.Helper()
	line, err := tryReceive(c, 100*time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("want silence, got %q, %v", line, err)
	}
}
