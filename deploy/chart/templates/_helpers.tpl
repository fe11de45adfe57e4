{{- define "operator.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "operator.selector" -}}
app.kubernetes.io/name: operator-sre
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "operator.parts" -}}
{{- $parts := .Values.parts -}}
{{- if .Values.console.enabled }}{{ $parts = append $parts "web" }}{{ end -}}
{{- if .Values.alerts.enabled }}{{ $parts = append $parts "alerts" }}{{ end -}}
{{ $parts | toJson }}
{{- end }}

{{- define "operator.check" -}}
{{- if and (eq .Values.store.kind "postgres") (not .Values.store.postgres.urlSecret) }}
{{- fail "store.kind is postgres: set store.postgres.urlSecret to a Secret with the key url." }}
{{- end }}
{{- if and (eq .Values.store.kind "sqlite") (gt (int .Values.replicas) 1) }}
{{- fail "Several replicas need store.kind=postgres, because a file belongs to one pod." }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.keysSecret) }}
{{- fail "Several replicas need keysSecret, because they sign one ledger with one key." }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.console.enabled) }}
{{- fail "ingress.enabled needs console.enabled." }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.tlsSecret) }}
{{- fail "ingress.enabled needs ingress.tlsSecret: a session must not cross a network unencrypted." }}
{{- end }}
{{- end }}
