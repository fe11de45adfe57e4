package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// unified writes the log format that TiDB, TiKV and PD share.
type unified struct {
	mu   sync.Mutex
	path string
	file *os.File
}

const logStamp = "2006/01/02 15:04:05.000 -07:00"

func openLog(path string) (*unified, error) {
	if path == "" {
		return &unified{file: os.Stderr}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return &unified{path: path, file: file}, err
}

// write adds a line; fields are names and values in turn. A log that cannot be written is no reason
// to stop.
func (u *unified) write(level, message string, fields ...any) {
	_, place, line, _ := runtime.Caller(1)
	var text strings.Builder
	fmt.Fprintf(&text, "[%s] [%s] [%s:%d] [%s]", time.Now().Format(logStamp), level,
		filepath.Base(place), line, quoted(message))
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := quoted(fmt.Sprint(fields[i])), quoted(fmt.Sprint(fields[i+1]))
		fmt.Fprintf(&text, " [%s=%s]", name, value)
	}
	text.WriteByte('\n')
	u.mu.Lock()
	defer u.mu.Unlock()
	u.file.WriteString(text.String())
}

// quoted puts in quotes only what could be mistaken for the end of a field.
func quoted(text string) string {
	if text == "" || strings.ContainsAny(text, " \"[]=\\") || !printable(text) {
		return strconv.Quote(text)
	}
	return text
}

func printable(text string) bool {
	for _, each := range text {
		if each < 0x20 || each == 0x7f {
			return false
		}
	}
	return true
}
