{{- define "gangctl.image" -}}
{{- with .Values.image -}}
{{- if not .repository -}}
{{- fail "image.repository is not set, and there is no public image: build one from Containerfile, push it to a registry that your nodes can reach, and set its name, such as --set image.repository=registry.example/gangctl" -}}
{{- end -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gangctl.check" -}}
{{- /* Its webhooks leave out its own namespace, and its quota is one for the system pods of kube-system, too. */}}
{{- if regexMatch "^(default|kube-.*)$" .Release.Namespace }}
{{- fail (printf "namespace %s is not gangctl's alone: no JobSet there would get a gang, and gangctl's quota would be for the pods of others. Choose one that is, such as --namespace gangctl-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- if and .Values.replicaCount (lt (int .Values.replicaCount) (int .Values.shards)) }}
{{- fail (printf "replicaCount: %d cannot lead %d shards, one each" (int .Values.replicaCount) (int .Values.shards)) }}
{{- end }}
{{- with .Values.components }}
{{- if and .policiesNativeDeny (not .policiesNative) }}
{{- fail "components.policiesNativeDeny: it has no policies of its own, and nothing would be denied: set components.policiesNative, too" }}
{{- end }}
{{- end }}
{{- with .Values.podDisruptionBudget }}
{{- if and .minAvailable .maxUnavailable }}
{{- fail "podDisruptionBudget: set minAvailable or maxUnavailable, not both" }}
{{- end }}
{{- end }}
{{- end -}}
