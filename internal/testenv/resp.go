package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// doWithin bounds one exchange with a server that a test looks into.
const doWithin = 10 * time.Second

// redisDo sends one command over a connection of its own and reads the reply:
// a string, an int64, nil, or a []any of these. An error reply is an error.
func redisDo(addr string, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), doWithin)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(doWithin)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, respCommand(args)); err != nil {
		return nil, err
	}
	return respRead(bufio.NewReader(c))
}

func respCommand(args []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

func respRead(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("reply %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reply %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case kind == '$' && n >= 0:
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	case kind == '*' && n >= 0:
		return respArray(r, int(n))
	case kind == '$' || kind == '*':
		return nil, nil
	}
	return nil, fmt.Errorf("reply %q", line)
}

func respArray(r *bufio.Reader, n int) (any, error) {
	list := make([]any, n)
	for i := range list {
		var err error
		if list[i], err = respRead(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}
